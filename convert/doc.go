// Package convert turns checkpoints into builds and back: plan, stream, journal, report.
//
// # The flow
//
// A plan is made from headers alone: every output tensor with type, shape, shard and offset, every other file with its
// size. Nothing is written before the plan passed the rules of the loader it is meant for. The weights are then read in
// strips of rows, solved, packed and stored at their planned place by a pool of workers, in any order; the output is the
// same bytes with any number of threads and any strip size, because rows are independent and error sums are kept per
// block of 32 rows and added in order.
//
// # Output
//
// Work goes on in OUT.partial beside OUT. Files are synced, the folder is renamed to OUT at the end: an unfinished
// output never looks like a finished one. A journal in OUT.partial has one line for every finished tensor, with a
// checksum of what was stored; a later run with the same plan verifies those and does the rest.
package convert
