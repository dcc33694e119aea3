#!/usr/bin/env bash
# One build by an array of jobs. Everything behind the script's name is handed to quantize; the output must be named.
#
#   job=$(sbatch --parsable --array=0-7 deploy/slurm.sh /models/M --format gptq -o /models/M-gptq)
#   sbatch --dependency=afterok:$job deploy/slurm.sh /models/M --format gptq -o /models/M-gptq
#
# A task makes the part of its number, a job without an array joins the parts. A task that was preempted or ran out of time is
# queued again (--requeue), or the same line is submitted again: a part that is there is not made again, an unfinished one goes on.
#SBATCH --job-name=quantize
#SBATCH --cpus-per-task=16
#SBATCH --mem=4G
#SBATCH --time=04:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=TERM@60
set -euo pipefail
quantize=${QUANTIZE:-quantize}
threads=${SLURM_CPUS_PER_TASK:-$(nproc)}
if [ -z "${SLURM_ARRAY_TASK_ID:-}" ]; then
  exec "$quantize" "$@" --threads "$threads" --quiet --merge --resume
fi
first=${SLURM_ARRAY_TASK_MIN:-0}
exec "$quantize" "$@" --threads "$threads" --quiet --part "$((SLURM_ARRAY_TASK_ID - first))/${SLURM_ARRAY_TASK_COUNT:?an array numbered without gaps}"
