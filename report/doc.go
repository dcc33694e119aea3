// Package report puts what is known of builds on one page: what they are, what they lost where, and how fast they run.
//
// It gathers values into a Report and renders that as an HTML file that needs nothing else: styles and charts are inside, nothing
// is loaded from a network, no script runs. The same values make the same bytes. Every chart stands beside a table of its values.
//
// # report.json
//
// The values of a page as one JSON object; what is not known is left out. Version 1 has
//
//	tool, version          the program and the version of this schema
//	reference              name of the float model that builds are held against
//	text                   what they were measured on: name, tokens, context, stride, windows, activations, kv
//	missing[]              what the page lacks, and the flag that adds it
//	builds[]               one object a build:
//	  name, architecture, format
//	  files[]              name, bytes
//	  parameters           of the original; tensor_bytes; bits_per_weight: 8·tensor_bytes/parameters
//	  made                 how, where the build's own report says so: tool, command, run (time, seconds, source, machine, kernel,
//	                       threads), sources[] (name, bytes, sha256), calibration (text, sequences, tokens, sha256), notes[]
//	  sqnr_db, sqnr_db_min of all quantized weights, and of the worst matrix; null without noise
//	  matrices[]           name, role, layer (-1 outside the decoder), shape, method, bits, group, bytes, bits_per_weight, kept,
//	                       sqnr_db, sampled (the figure is of some rows only), max_error, loss, fallback, folded
//	  histograms[]         of the worst matrices: name, sqnr_db, lo, hi, before[], after[]: shares of the sampled weights in equal
//	                       bins from lo to hi, the first and the last with what lies outside
//	  measured             what runtime compare prints, and
//	    kl_histogram[]     from, to, share of the positions
//	    kl_by_position[]   from, to (positions in the window), positions, kl_mean
//	    worst_tokens[]     text (index of the token), context, token, expected, built: as text; kl, p_reference, p_build
//	  dominated_by         a build with at most as many bits and at most as much KL divergence (or, unmeasured, noise)
//	exports[]              one object an export for an NPU: name, model, scheme, kv, context, prefill_tokens, text, ranges, logits_sqnr_db,
//	                       layers[], tensors[] (as export_report.json has them), files[]
//	speed[]                one object a file of runtime bench --json: file, model, cpu, threads, tests[]
//
// # Hostile input
//
// Reports are files, and files may be anything: ParseBuild, ParseExport and ParseBench take at most 64 MiB, refuse what is no
// number, no size or no shape with an Invalid, and never panic. Texts of files and of models reach the page escaped.
package report
