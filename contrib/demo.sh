#!/usr/bin/env bash
# Shows mesopod at work on this machine: starts a local cluster with two agents on a real Mesos, runs
# contrib/examples/hello.yaml, looks at the pod from both sides, Kubernetes and Mesos, and deletes it; then drains an agent
# under the three web pods of contrib/examples/shop.yaml without losing a request; and takes everything down. Each step is
# checked; the exit status is 0 only if all of them held.
#
# usage: demo.sh           (root; after make mesos runtime images build). KEEP=1 leaves cluster and shop up; MESOS=sim takes
#                          the simulated Mesos, which needs no make mesos.
set -euo pipefail
cd "$(dirname "$0")/.."
bundle=${MESOPOD_BUNDLE:-$PWD/bin/bundle}
mesos=${MESOPOD_MESOS:-$PWD/bin/mesos}
kind=${MESOS:-real}
keep=${KEEP:-0}
state=/var/lib/mesopod/local
pod=hello
log=$(mktemp /tmp/mesopod-demo.XXXXXX)
cluster= follow= passed=0 marked=0
. contrib/demo-network.sh

mesopod() { "$bundle/mesopod" "$@"; }
kubectl() { "$bundle/mesopod" kubectl --kubeconfig "$state/kubeconfig" "$@"; }
head_line() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
ok() { passed=$((passed + 1)); echo "   ok: $*"; }
die() { echo "demo: $*" >&2; exit 1; }

# check WHAT COMMAND...: the command must succeed.
check() {
  local what=$1
  shift
  "$@" || die "$what: does not hold"
  ok "$what"
}

# within SECONDS COMMAND...: the command must succeed within that time.
within() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    [ "$SECONDS" -lt "$end" ] || return 1
    [ -z "$cluster" ] || kill -0 "$cluster" 2>/dev/null || die "the local cluster ended"
    sleep 0.2
  done
}

stop_cluster() {
  [ -n "$cluster" ] || return 0
  local status=0
  kill -TERM "$cluster" 2>/dev/null || true
  wait "$cluster" || status=$?
  cluster=
  return "$status"
}

finish() {
  local status=$?
  trap - EXIT INT TERM
  if [ "$status" != 0 ]; then
    echo "demo: FAILED after $passed checks" >&2
    local file
    for file in "$state"/logs/scheduler.log "$state"/logs/mesos-sim.log "$state"/logs/mesos-agent*.log \
      "$state"/agent*/work/slaves/*/frameworks/*/executors/*/runs/latest/{stderr,stdout,containerd.log}; do
      [ ! -s "$file" ] || { echo "---- end of $file" >&2; tail -n 25 "$file" >&2; }
    done
    stop_cluster >&2 || true
  elif [ -n "$cluster" ]; then # KEEP=1
    echo "demo: the cluster is left up: kill -TERM $cluster ends it; its output goes to $log"
  fi
  [ -z "$follow" ] || kill "$follow" 2>/dev/null || true
  [ -n "$cluster" ] || rm -f "$log"
  exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

[ "$(id -u)" = 0 ] || die "run as root: local mode makes network namespaces, cgroups and mounts"
for tool in jq curl ip; do command -v "$tool" >/dev/null || die "$tool is missing (make deps)"; done
[ -x "$bundle/mesopod" ] && { [ "$kind" = sim ] || [ -x "$mesos/mesos-agent" ]; } || die "not built yet: make mesos runtime images build"

head_line "mesopod local --mesos=$kind: control plane, Mesos master and two agents, scheduler"
began=$SECONDS
setsid "$bundle/mesopod" local --agents 2 --mesos "$kind" --bundle-dir "$bundle" --mesos-dir "$mesos" >"$log" 2>&1 </dev/null &
cluster=$!
tail -n +1 -s 0.1 --pid "$cluster" -f "$log" &
follow=$!
within 180 grep -q '^ready in' "$log" || die "local mode is not ready"
sleep 0.3 # for tail to show the last lines
ok "local cluster is ready"
master=http://10.89.0.1:5050

head_line "kubectl apply -f contrib/examples/hello.yaml"
kubectl apply -f contrib/examples/hello.yaml
check "pod is Ready" kubectl wait --timeout=120s --for=condition=Ready "pod/$pod"
uid=$(kubectl get pod "$pod" -o jsonpath='{.metadata.uid}')
ip=$(kubectl get pod "$pod" -o jsonpath='{.status.podIP}')

node=$(kubectl get pod "$pod" -o jsonpath='{.spec.nodeName}')
agent=http://10.89.0.1${node#mesopod-agent}:5051

head_line "the pod as kubectl sees it"
kubectl get pod "$pod" -o wide
check "it has an IP" test -n "$ip"
check "both containers are ready" test "$(kubectl get pod "$pod" -o jsonpath='{.status.containerStatuses[*].ready}')" = "true true"

head_line "its log"
three_lines() { first=$(kubectl logs "$pod" -c talk | sed -n 1,3p) && [ "$(wc -l <<<"$first")" = 3 ]; }
within 30 three_lines || die "the log does not grow"
echo "$first"
check "the log tells what the init container left" grep -q "hello from $pod, prepared" <<<"$first"

head_line "an exec into it"
said=$(kubectl exec "$pod" -c talk -- sh -c 'echo "process $$ in $(hostname)"; cat /work/state')
echo "$said"
check "exec runs in the pod" grep -q "in $pod" <<<"$said"
answer=$(curl -sS --max-time 5 "http://$ip:8080/") || die "the pod does not answer on its IP"
echo "curl http://$ip:8080/  ->  $answer"
check "the pod answers on its IP" grep -q "$pod" <<<"$answer"

# Mesos' own view.
task() { curl -sS --max-time 10 "$master/master/state" | jq -e --arg id "$uid.1" "[.frameworks[], .completed_frameworks[]] | map(.$1[]?) | map(select(.id == \$id)) | .[0] // empty"; }
task_is() { task "$1" 2>/dev/null | jq -e --arg s "$2" '.state == $s' >/dev/null; }

head_line "the task as Mesos' /master/state sees it"
within 20 task_is tasks TASK_RUNNING || die "Mesos has no running task $uid.1"
found=$(task tasks)
jq '{id, name, state, resources, labels: [.labels[]? | "\(.key)=\(.value)"], container_ip: [.statuses[-1].container_status.network_infos[]?.ip_addresses[]?.ip_address]}' <<<"$found"
check "its state is TASK_RUNNING" jq -e '.state == "TASK_RUNNING"' <<<"$found" >/dev/null
check "its name is $pod.default.pod" jq -e --arg n "$pod.default.pod" '.name == $n' <<<"$found" >/dev/null
check "it has labels" jq -e '(.labels | length) > 0' <<<"$found" >/dev/null
check "its container IP is the pod's" jq -e --arg ip "$ip" '[.statuses[-1].container_status.network_infos[].ip_addresses[].ip_address] | index($ip)' <<<"$found" >/dev/null

head_line "the same log read through the agent's /files/read"
sandbox=$(curl -sS --max-time 10 "$agent/state" | jq -er '[.frameworks[].executors[]][0].directory')
folder=$sandbox/pods/default_${pod}_$uid/talk
file=$(curl -sS -G --max-time 10 "$agent/files/browse" --data-urlencode "path=$folder" | jq -er '.[0].path')
echo "${file#"$sandbox"/}"
read_log() { curl -sS -G --max-time 10 "$agent/files/read" --data-urlencode "path=$file" -d offset=0 -d length=50000 | jq -er .data; }
# Each line begins with time, stream and a mark for whole lines.
mesos_first=$(read_log | sed -n '1,3s/^[^ ]* [^ ]* [^ ]* //p')
echo "$mesos_first"
check "Mesos and kubectl show the same lines" test "$mesos_first" = "$first"

head_line "kubectl delete"
kubectl delete pod "$pod" --timeout=60s
within 30 task_is completed_tasks TASK_KILLED || die "Mesos does not show TASK_KILLED: $(task completed_tasks | jq -c .state)"
task completed_tasks | jq '{id, name, state}'
ok "the task is TASK_KILLED"

demo_network

if [ "$keep" = 1 ]; then
  head_line "KEEP=1: $passed checks held"
  kill "$follow" 2>/dev/null || true
  exit 0
fi

head_line "everything down"
check "local mode ends with status 0" stop_cluster
wait "$follow" 2>/dev/null || true
left() {
  { grep -lzsFx "MESOPOD_LOCAL=$state" /proc/[0-9]*/environ || true; } | sed 's/^/process /'
  awk -v dir="$state/" 'index($5, dir) == 1 {print "mount " $5}' /proc/self/mountinfo
  { ip -o link 2>/dev/null | grep -o 'mesopod[^:@]*' || true; } | sed 's/^/link /'
  find /sys/fs/cgroup -maxdepth 3 -path '*/mesopod/local-*' -printf 'cgroup %p\n' 2>/dev/null || true
}
rest=$(left)
[ -z "$rest" ] || die "left behind: $rest"
ok "no process, mount, link, network namespace or cgroup is left"

head_line "demo passed: $passed checks in $((SECONDS - began)) s"
