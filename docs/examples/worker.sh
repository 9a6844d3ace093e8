#!/bin/sh
# A worker in shell, by lines of fields: makes the payload upper case.
#
#     wqctl work shout --lines fields -- docs/examples/worker.sh
#
# Tabs stand between the fields; printf '%b' takes the escapes out of the last one.
tab=$(printf '\t')
while IFS=$tab read -r key generation attempt payload; do
	text=$(printf '%b' "$payload")
	case $text in
	'') echo "failed $key: there is nothing to shout" ;;
	later) [ "$attempt" -gt 1 ] && echo "done LATER" || echo "retry 100ms not yet" ;;
	*) printf 'done %s\n' "$(printf '%s\n' "$text" | tr '[:lower:]' '[:upper:]' |
		awk '{ gsub(/\\/, "\\\\"); printf "%s%s", sep, $0; sep = "\\n" }')" ;;
	esac
done
