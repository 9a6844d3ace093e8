#!/usr/bin/env bash
# make demo: a private daemon on a temp socket and state directory, and the main job on it.
#   1. three heartbeat clients; one falls silent; its handler runs, once, when its time is over
#   2. a debounce: 100 updates of one key run once, with coalesced=99
#   3. kill -9 in the middle: the deadlines survive
# Every claim is checked; the exit status is 0 only if all hold.
set -euo pipefail
build=${1:-.}
wqd=$build/daemon/wqd
wqctl=$build/client/wqctl
tmp=$(mktemp -d /tmp/wqd-demo.XXXXXX)
export WQ_SERVER=unix:$tmp/wqd.sock
daemon=
clients=()

cleanup() {
	for pid in "${clients[@]}" $daemon; do
		kill "$pid" 2>/dev/null || true
	done
	wait 2>/dev/null || true
	rm -rf "$tmp"
}
trap cleanup EXIT

start_ms=$(date +%s%3N)
say() {
	printf '%6d ms  %s\n' $(($(date +%s%3N) - start_ms)) "$*"
}
die() {
	say "FAILED: $*"
	sed 's/^/    /' "$tmp/log" >&2
	exit 1
}

start_daemon() {
	"$wqd" -c "$tmp/wqd.conf" 2>>"$tmp/log" &
	daemon=$!
	for _ in $(seq 600); do
		"$wqctl" ping >/dev/null 2>&1 && return
		sleep 0.05
	done
	die "the daemon does not answer"
}

# field JSON NAME: the value of a top-level field of one line of JSON.
field() {
	/usr/bin/env python3 -c 'import json, sys; print(json.dumps(json.loads(sys.argv[1])[sys.argv[2]]))' "$1" "$2"
}

cat >"$tmp/fired" <<'END'
#!/bin/sh
echo "$WQ_QUEUE/$WQ_KEY generation=$WQ_GENERATION coalesced=$WQ_COALESCED $(date +%s%3N)" >>"$1"
END
chmod +x "$tmp/fired"
cat >"$tmp/wqd.conf" <<END
state_dir = "$tmp/state"
listen    = { "unix:$tmp/wqd.sock" }
handler "fired" { command = { "$tmp/fired", "$tmp/events" } }
queue "hb"    { handler = "fired" }
queue "index" { handler = "fired" }
END
mkdir -m 700 "$tmp/state"
touch "$tmp/events"

say "starting a daemon on $WQ_SERVER"
start_daemon

say "three clients beat every 200 ms: each pushes its timeout of 1.5 s back"
for host in web-1 web-2 web-3; do
	while :; do
		"$wqctl" -q update "hb/$host" 1500ms >/dev/null 2>&1 || true
		sleep 0.2
	done &
	clients+=($!)
done
sleep 2
[ -s "$tmp/events" ] && die "a handler ran although all clients beat"
say "2 s later nothing has fired:"
"$wqctl" list --queue hb | sed 's/^/             /'

say "web-2 falls silent"
kill "${clients[1]}"
silent_ms=$(date +%s%3N)
silent=$("$wqctl" --json get hb/web-2)

say "100 updates of index/site, each 'in 1 s': a debounce"
for _ in $(seq 100); do
	echo "index/site 1s"
done | "$wqctl" -q update --batch >/dev/null
sleep 0.2

say "kill -9 $daemon (the daemon), then a start on the same state directory"
# Together, so that the shell does not report the kill.
{
	kill -9 "$daemon"
	wait "$daemon"
} 2>/dev/null || true
start_daemon
say "it is back; what was pending:"
"$wqctl" list --queue hb | sed 's/^/             /'

for _ in $(seq 100); do
	[ "$(wc -l <"$tmp/events")" -ge 2 ] && break
	sleep 0.1
done
while read -r line; do
	say "the handler ran: ${line% *}"
done <"$tmp/events"

[ "$(grep -c '^hb/web-2 ' "$tmp/events")" = 1 ] || die "web-2's handler did not run exactly once"
grep -q '^hb/web-[13] ' "$tmp/events" && die "a client that beats was reported"
due_ms=$(field "$silent" deadline_ms)
fired_ms=$(awk '$1 == "hb/web-2" { print $NF }' "$tmp/events")
say "web-2 was reported $((fired_ms - silent_ms)) ms after its client was stopped," \
	"$((fired_ms - due_ms)) ms after its deadline (1500 ms from its last beat)"
[ "$fired_ms" -ge "$due_ms" ] || die "too early"
grep -q '^index/site generation=1 coalesced=99 ' "$tmp/events" || die "the debounce did not run once with coalesced=99"
last=$(field "$("$wqctl" --json get index/site)" last)
say "its record, of wqctl --json get index/site: $last"

for pid in "${clients[0]}" "${clients[2]}"; do
	kill "$pid"
done
say "stopping the daemon"
kill "$daemon"
wait "$daemon" || die "the daemon ended with $?"
daemon=
clients=()
say "done: all as claimed"
