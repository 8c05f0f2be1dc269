#!/bin/bash
# Asks a munia service on this machine whether it is well, without curl: health [PORT] [PATH].
# Exits 0 when the answer is 200, else 1. /health: alive; /ready: the model is loaded.
port=${1:-8080} path=${2:-/health}
exec 2>/dev/null 3<>"/dev/tcp/127.0.0.1/$port" || exit 1
printf 'GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' "$path" >&3
if read -r -t 5 _ status _ <&3 && [ "$status" = 200 ]; then
  exit 0
fi
exit 1
