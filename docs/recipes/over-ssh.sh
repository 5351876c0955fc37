#!/bin/bash
# Plain ssh, no scheduler: one launcher per host, recorded by rerail.
#   HOSTS="a b c" docs/recipes/over-ssh.sh train.py --epochs 3
#   rerail explain /shared/rerail-jobs/JOB
set -u

read -r -a hosts <<< "${HOSTS:?name the hosts: HOSTS=\"a b c\"}"
job="${JOB:-train-$(date +%Y%m%d-%H%M%S)}"
records="${RERAIL_JOB_DIR:-$PWD/rerail-jobs}"  # a folder that all hosts see
head="${MASTER_ADDR:-${hosts[0]}}"
pids=()
for rank in "${!hosts[@]}"; do
  launcher=(torchrun "--nnodes=${#hosts[@]}" "--node-rank=$rank" "--nproc-per-node=${NPROC:-1}"
    "--master-addr=$head" "--master-port=${MASTER_PORT:-29400}" "$@")
  command=(env "RERAIL_NODE=${hosts[$rank]}" "${RERAIL:-rerail}" run
    --job "$job" --job-dir "$records" -- "${launcher[@]}")
  ${SSH:-ssh -o BatchMode=yes} "${hosts[$rank]}" "cd $(printf %q "$PWD") && $(printf '%q ' "${command[@]}")" &
  pids+=($!)
done
status=0
for pid in "${pids[@]}"; do wait "$pid" || status=$?; done
[ "$status" = 0 ] || echo "rerail explain $records/$job" >&2
exit "$status"
