# Part of demo.sh, which sources it: three web pods on two agents behind a Service that another pod asks by its name all the
# time, while one agent is drained and comes back. Prints counts of requests; one that is lost is a failure.

answers() { kubectl logs shopper; }
answered() { answers 2>/dev/null | grep -c ' ok ' || true; }
lost() { answers 2>/dev/null | grep -c ' failed ' || true; }

# more N: the shopper has got N more answers than at the last call of mark.
mark() { marked=$(answers | wc -l); }
more() { [ "$(answers 2>/dev/null | wc -l)" -ge $((marked + $1)) ]; }

# since TEXT: requests since the last mark, by who answered; none may be lost.
since() {
  local lines failed
  lines=$(answers | tail -n +$((marked + 1)))
  failed=$(grep -c ' failed ' <<<"$lines" || true)
  awk '/ ok / {count[$NF]++} END {for (pod in count) printf "   %6d answers from %s\n", count[pod], pod}' <<<"$lines" | sort -k4
  grep ' failed ' <<<"$lines" | head -5 || true
  check "$1: $(wc -l <<<"$lines") requests, $failed lost" test "$failed" = 0
}

shop_on() { kubectl get pods -l app=shop -o json | jq -r --arg node "$1" '[.items[] | select(.spec.nodeName == $node and .metadata.deletionTimestamp == null)] | length'; }
show_shop() { kubectl get pods -l 'app in (shop, shopper)' -o custom-columns='POD:.metadata.name,NODE:.spec.nodeName,IP:.status.podIP,PHASE:.status.phase' --sort-by=.spec.nodeName; }
steady() { answered_now=$(answered); [ "$answered_now" -ge 20 ] && answers | tail -n 20 | grep -qv ' failed '; }

demo_network() {
  head_line "kubectl apply -f contrib/examples/shop.yaml: a Deployment, a Service, a pod that asks http://shop/"
  kubectl -n kube-system scale deployment mesopod-dns --replicas=2 # names are to be known while either agent is drained
  kubectl -n kube-system rollout status deployment mesopod-dns --timeout=120s
  kubectl apply -f contrib/examples/shop.yaml
  kubectl scale deployment shop --replicas=3
  kubectl rollout status deployment shop --timeout=120s
  check "shopper runs" kubectl wait --timeout=60s --for=jsonpath='{.status.phase}'=Running pod/shopper
  within 60 steady || die "the shopper gets no answers: $(answers | tail -n 3)"
  show_shop
  check "the three pods are on both agents" test "$(shop_on mesopod-agent1)" -gt 0 -a "$(shop_on mesopod-agent2)" -gt 0
  mark
  within 60 more 200 || die "the shopper stands still: $(answers | tail -n 3)"
  since "by name, across agents"

  local home victim
  home=$(kubectl get pod shopper -o jsonpath='{.spec.nodeName}')
  victim=mesopod-agent1
  [ "$home" != "$victim" ] || victim=mesopod-agent2
  head_line "mesopod drain $victim --master=${master#http://}"
  mark
  "$bundle/mesopod" drain "$victim" --kubeconfig "$state/kubeconfig" --master "${master#http://}" --max-grace-period 30s ||
    die "the agent is not drained"
  kubectl rollout status deployment shop --timeout=120s
  show_shop
  check "all three pods are on $home now" test "$(shop_on "$home")" = 3 -a "$(shop_on "$victim")" = 0
  within 60 more 200 || die "the shopper stands still: $(answers | tail -n 3)"
  since "while $victim was drained"
  mark
  within 60 more 200 || die "the shopper stands still: $(answers | tail -n 3)"
  since "after it"

  head_line "mesopod undrain $victim, kubectl rollout restart deployment shop"
  mark
  "$bundle/mesopod" undrain "$victim" --kubeconfig "$state/kubeconfig" --master "${master#http://}" || die "the agent does not come back"
  kubectl rollout restart deployment shop
  kubectl rollout status deployment shop --timeout=180s
  show_shop
  check "the agent has pods of the shop again" test "$(shop_on "$victim")" -gt 0
  within 60 more 200 || die "the shopper stands still: $(answers | tail -n 3)"
  since "while all three were replaced"
  [ "$keep" = 1 ] || kubectl delete -f contrib/examples/shop.yaml --timeout=60s
}
