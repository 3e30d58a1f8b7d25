#!/bin/sh
# Run a job from cron: nightly.sh JOB.toml [OPTION of ooc-graph run ...]
#
# All output goes to JOB.log. cron mails what a command prints, so this prints only if somebody has
# to look: not if the job is done (0), may succeed next time (75), or was stopped (143).
set -u

job=$1
shift
log="${job%.toml}.log"

echo "$(date -u +%Y-%m-%dT%H:%M:%SZ) begins: $job" >> "$log"
ooc-graph run "$job" --quiet "$@" >> "$log" 2>&1
code=$?
echo "$(date -u +%Y-%m-%dT%H:%M:%SZ) ended with exit code $code" >> "$log"

case $code in
0 | 75 | 143) ;;
*)
    echo "ooc-graph run $job ended with exit code $code. The end of $log:"
    tail -n 20 "$log"
    ;;
esac
exit "$code"
