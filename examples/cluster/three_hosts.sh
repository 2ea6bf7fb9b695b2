#!/usr/bin/env bash
# Three computers on one: network and mount namespaces with addresses, /tmp and /run of their own, joined by a bridge.
# The workflows that run in one process run over them, from the same files, with CURVE keys.
#
#     examples/cluster/three_hosts.sh [SLUICE]                 # build/sluice: shows it, and compares the answers
#     examples/cluster/three_hosts.sh SLUICE -- COMMAND ...    # runs a command beside them, as `on eyes ip address`
#
# COMMAND finds the program `on HOST COMMAND ...`, and in $WIRES the folder of the wires' names.
# Not in the package lists: ip, on (iproute2; made here)
# Needs root, or a kernel that lets users make namespaces, and ends with 77 where none can be made.
# All of it is in one process namespace, so nothing is left, also where this is killed.
set -euo pipefail
cd "$(dirname "$0")/../.."
hosts=(front eyes talk)

if [ "${1:-}" != --inside ]; then
  sluice=$(realpath "${1:-build/sluice}")
  [ -x "$sluice" ] || { echo "three_hosts: there is no program $sluice" >&2; exit 1; }
  shift $(($# > 0 ? 1 : 0))
  command -v ip >/dev/null || { echo "three_hosts: ip is missing: apt-get install iproute2" >&2; exit 77; }
  case $PWD/:$sluice in /tmp/*|/run/*|*:/tmp/*|*:/run/*)
    echo "three_hosts: each host has a /tmp and /run of its own, so neither the files nor the program may be there" >&2
    exit 77 ;;
  esac
  export PROPAGATION=private
  new=(--net --mount --pid --fork --kill-child --mount-proc --propagation=private)
  [ "$(id -u)" = 0 ] || new=(--user --map-root-user "${new[@]}")
  # In a chroot, whose root is no mount, nothing can be made private, and need not where nothing is shared.
  if ! unshare "${new[@]}" -- true 2>/dev/null && ! grep -q ' shared:' /proc/self/mountinfo; then
    PROPAGATION=unchanged
    new=("${new[@]/--propagation=private/--propagation=unchanged}")
  fi
  unshare "${new[@]}" -- true 2>/dev/null || { echo "three_hosts: no namespaces can be made here" >&2; exit 77; }
  exec unshare "${new[@]}" -- "$BASH" examples/cluster/three_hosts.sh --inside "$sluice" "$@"
fi

# ---- in a process namespace of its own, whose first process this is
sluice=$2
shift 2
mount -t tmpfs none /tmp
mount -t tmpfs none /run
mkdir -p /run/hosts /run/bin
cat >/run/bin/on <<'ON'
#!/bin/sh
pid=$(cat "/run/hosts/$1") && shift && exec nsenter --target "$pid" --net --mount --root --wd="$PWD" -- "$@"
ON
chmod +x /run/bin/on
export PATH=/run/bin:$PATH WIRES=/run/wires
mkdir "$WIRES"
unset XDG_RUNTIME_DIR

ip link set lo up
ip link add bridge type bridge
ip link set bridge up
for i in "${!hosts[@]}"; do
  host=${hosts[$i]}
  # Its own /tmp and /run; all else can be read only.
  unshare --net --mount --propagation="$PROPAGATION" -- sh -c '
    mount -t tmpfs none /tmp && mount -t tmpfs none /run && mount -t tmpfs none /dev/shm
    mount -o remount,bind,ro / 2>/dev/null
    touch /tmp/is-there; exec sleep infinity' </dev/null >/dev/null 2>&1 &
  echo $! >"/run/hosts/$host"
  until on "$host" test -e /tmp/is-there 2>/dev/null; do :; done
  ip link add "$host" type veth peer name wire netns $!
  ip link set "$host" master bridge up
  echo "10.77.0.$((i + 1))" >"$WIRES/$host"
  on "$host" ip address add "10.77.0.$((i + 1))/24" dev wire
  on "$host" ip link set wire up
  on "$host" ip link set lo up
done

"$sluice" keys /tmp/keys "${hosts[@]/#/--machine=}" >/dev/null
for host in "${hosts[@]}"; do  # its own secret, everybody's public keys
  tar -C /tmp -c "keys/$host.secret" $(cd /tmp && echo keys/*.public) | on "$host" tar -C /tmp -x --no-same-owner
done

# cluster NAME WORKFLOW ROLES_OF_FRONT ROLES_OF_EYES ROLES_OF_TALK: the same file on each host
cluster() {
  local host
  for host in "${hosts[@]}"; do
    on "$host" tee "/tmp/$1.yaml" >/dev/null <<YAML
cluster: 1
workflows: [ "$PWD/$2" ]
machines:
  front: { home: true, roles: [ $3 ], address: "tcp://10.77.0.1:7000" }
  eyes:  { roles: [ $4 ], address: "tcp://10.77.0.2:7000" }
  talk:  { roles: [ $5 ], address: "tcp://10.77.0.3:7000" }
keys: keys
lease: ${LEASE:-3s}
YAML
  done
}
export -f cluster
export hosts_list="${hosts[*]}" sluice

if [ "${1:-}" = -- ]; then
  shift
  cluster image_chat workflows/image_chat.yaml parser "vit, vae" "llm, diffusion"
  "$@"
  exit
fi

# same NAME WORKFLOW "ARGUMENTS OF cluster" -- arguments of run: on three hosts and in one process
failed=0
same() {
  local name=$1 workflow=$2 front=$3 eyes=$4 talk=$5 sets=()
  shift 5
  while [ "${1:-}" = --set ]; do sets+=(--set "$2"); shift 2; done
  cluster "$name" "$workflow" "$front" "$eyes" "$talk"
  local nodes=() host
  for host in eyes talk; do
    on "$host" "$sluice" node --cluster "/tmp/$name.yaml" --name "$host" "${sets[@]}" >/dev/null 2>&1 &
    nodes+=($!)
  done
  local hosts_out="/tmp/$name-hosts" alone_out="/tmp/$name-alone"
  mkdir -p "$alone_out"
  on front mkdir -p "$hosts_out"
  on front sh -c 'cd "$1" && shift && exec "$@"' - "$hosts_out" \
    "$sluice" run --cluster "/tmp/$name.yaml" "${sets[@]}" "$@" >"/tmp/$name-hosts.txt" || failed=1
  (cd "$alone_out" && "$sluice" run "$OLDPWD/$workflow" "${sets[@]}" "$@") >"/tmp/$name-alone.txt" || failed=1
  kill "${nodes[@]}" 2>/dev/null
  wait "${nodes[@]}" 2>/dev/null || true
  mkdir -p "$hosts_out"
  on front tar -C "$hosts_out" -c . | tar -C "$hosts_out" -x --no-same-owner
  if cmp -s "/tmp/$name-hosts.txt" "/tmp/$name-alone.txt" && diff -rq "$hosts_out" "$alone_out" >/dev/null; then
    printf '%s: the same bytes on three hosts and in one process (%s in all)\n' "$name" \
      "$(cat "/tmp/$name-hosts.txt" "$hosts_out"/* 2>/dev/null | wc -c)"
    sed 's/^/  /' "/tmp/$name-hosts.txt"
  else
    echo "$name: DIFFERENT"
    diff "/tmp/$name-hosts.txt" "/tmp/$name-alone.txt" || true
    failed=1
  fi
}

same question workflows/image_chat.yaml parser "vit, vae" "llm, diffusion" \
  --image "$PWD/models/scenes/samples/table.png" --prompt "what color is the circle"
same drawing workflows/image_chat.yaml parser "vit, vae" "llm, diffusion" --prompt "draw a red circle" --seed 3
same vlm_split workflows/vlm_split.yaml parser eyes llm \
  --image "$PWD/models/scenes/samples/table.png" --prompt "What is there?" --max-tokens 8
model=$({ find -L "$PWD/fetched" -name '*.gguf' 2>/dev/null || true; } | head -n 1)
if [ -n "$model" ]; then
  same smollm2 workflows/chat.yaml parser "" llm --set "roles.llm.model=$model" \
    --set "global_params.kv.model=$model" --prompt "What is the capital of France?" --max-tokens 12
else
  echo "smollm2: left out, as fetched/ has no model (./demo fetches it)"
fi
exit $failed
