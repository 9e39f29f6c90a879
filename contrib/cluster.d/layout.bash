# shellcheck shell=bash
# What a cluster is made of, its options, and the checks before anything is touched.
#
# DIR/etc   configuration, key, private passwd and group    DIR/db     MariaDB's data
# DIR/run   sockets (slurmq's)                              DIR/ctld   slurmctld's saved state
# DIR/state for the market's own files (slurmq's)           DIR/spool  slurmd's
# DIR/log   one log for each daemon                         DIR/home   a home for each user
# DIR/pids  process id and start time of each daemon        DIR/dev    the fake GPUs
# DIR/bin   the market's programs                           DIR/plugins  and its plugins

# quotamarketd is one more where the market was installed.
DAEMONS=(munged mariadbd slurmdbd slurmctld slurmd1 slurmd2 slurmd3 slurmd4)
readonly PORT_COUNT=20
readonly SLURM_USER=slurmq
readonly SLURM_UID=61000
# Unix socket paths end at 108 bytes; the longest below DIR is a job step's, spool/gpu1/gpu1_NNNNNNNNNN.NNNNNNNNNN.
readonly MAX_DIR_LENGTH=64

name=market dir='' port='' role=site-factor conf_file='' market_file='' teams_file='' product_dir='' purge=''
plugin_dirs=()
command_words=()
cluster_environment=()

die() {
    echo "contrib/cluster: $*" >&2
    exit 1
}

parse_options() {
    local option
    while [ "$#" -gt 0 ]; do
        option=$1
        shift
        case $option in
            --purge) purge=yes ;;
            --)
                command_words=("$@")
                break
                ;;
            --dir | --port | --name | --product | --plugin-dir | --role | --conf | --market | --teams)
                if [ "$#" -eq 0 ]; then die "$option needs a value."; fi
                set_option "$option" "$1"
                shift
                ;;
            *) die "unknown option '$option'; see contrib/cluster help." ;;
        esac
    done
}

require_dir() {
    if [ -z "$dir" ]; then die "needs --dir DIR."; fi
}

set_option() {
    case $1 in
        --dir)
            dir=$(realpath -m -- "$2")
            if [[ ! $dir =~ ^/[A-Za-z0-9._/-]+$ ]]; then die "--dir $2: only letters, digits, '.', '_' and '-' may be in a path that Slurm reads."; fi
            if [ "${#dir}" -gt "$MAX_DIR_LENGTH" ]; then die "--dir $2 is longer than $MAX_DIR_LENGTH characters, too long for sockets below it."; fi
            ;;
        --port)
            if [[ ! $2 =~ ^[0-9]{4,5}$ ]] || [ "$2" -lt 1024 ] || [ "$2" -gt $((65536 - PORT_COUNT)) ]; then
                die "--port $2 is not a number from 1024 to $((65536 - PORT_COUNT))."
            fi
            port=$2
            ;;
        --name)
            if [[ ! $2 =~ ^[a-z][a-z0-9_]{0,30}$ ]]; then die "--name $2 is not a lower-case word."; fi
            name=$2
            ;;
        --product)
            if [ ! -x "$2/quotamarketd" ]; then die "--product $2 holds no quotamarketd; build it first."; fi
            product_dir=$(realpath -- "$2")
            ;;
        --plugin-dir)
            if [ ! -d "$2" ]; then die "--plugin-dir $2 is not a directory."; fi
            plugin_dirs+=("$(realpath -- "$2")")
            ;;
        --role)
            if [[ ! $2 =~ ^(site-factor|priority)$ ]]; then die "--role $2 is neither site-factor nor priority."; fi
            role=$2
            ;;
        --conf) conf_file=$(readable_file "$1" "$2") ;;
        --market) market_file=$(readable_file "$1" "$2") ;;
        --teams) teams_file=$(readable_file "$1" "$2") ;;
    esac
}

readable_file() {
    if [ ! -f "$2" ] || [ ! -r "$2" ]; then die "$1 $2 is not a readable file."; fi
    realpath -- "$2"
}

# Whether this machine's Slurm is of the given release, as 23.11, or a later one: the one place that knows which it is.
slurm_is_at_least() {
    local version
    version=$(slurmctld -V) # "slurm-wlm 24.11.5"
    version=${version##* }
    printf '%s\n' "$1" "$version" | sort --version-sort --check=quiet
}

set_environment() {
    local library
    library=$(multiarch_path libnss_wrapper.so)
    cluster_environment=(
        "SLURM_CONF=$dir/etc/slurm.conf"
        "LD_PRELOAD=$library"
        "NSS_WRAPPER_PASSWD=$dir/etc/passwd"
        "NSS_WRAPPER_GROUP=$dir/etc/group"
        "QUOTAMARKET_CONFIG=$dir/etc/market.toml"
    )
    if [ -n "$product_dir" ] || [ -e "$dir/bin/quotamarketd" ]; then DAEMONS+=(quotamarketd); fi
}

# The path of a file in the machine's library directory, as /usr/lib/x86_64-linux-gnu/NAME.
multiarch_path() {
    local path
    for path in /usr/lib/*-linux-gnu/"$1"; do
        if [ -e "$path" ]; then
            echo "$path"
            return 0
        fi
    done
    die "$1 is not installed; run contrib/setup."
}

require_root() {
    if [ "$(id -u)" -ne 0 ]; then die "needs root, because slurmd runs jobs as their users."; fi
}

require_cluster() {
    if [ ! -e "$dir/etc/cluster" ]; then die "there is no cluster in $dir."; fi
    read -r name port <"$dir/etc/cluster" || true # empty if its `up` ended early
}

require_daemon() {
    if [[ " ${DAEMONS[*]} " != *" $1 "* ]]; then die "there is no daemon $1; the daemons are ${DAEMONS[*]}."; fi
}

check_machine() {
    local program
    if [ -z "$port" ]; then die "up needs --port BASE."; fi
    for program in slurmctld slurmd slurmstepd slurmdbd sacctmgr scontrol sinfo munged munge mariadbd mariadb-install-db setpriv setsid flock; do
        if ! command -v "$program" >/dev/null; then die "$program is not installed; run contrib/setup."; fi
        if [[ $(readlink -f "$(command -v "$program")") == *-emulator ]]; then
            die "$program is Slurm's emulator here; set it back with: update-alternatives --auto $program"
        fi
    done
}

# Makes DIR or takes over one of an earlier `up`; never touches a directory with anything else in it.
claim_directory() {
    if [ ! -e "$dir/etc/cluster" ] && [ -n "$(ls -A "$dir" 2>/dev/null)" ]; then
        die "$dir is not empty and holds no cluster."
    fi
    mkdir -p "$dir/etc"
    chmod 755 "$dir" "$dir/etc"
    touch "$dir/etc/cluster"
    take_lock
    if ! setpriv --reuid="$SLURM_UID" --regid="$SLURM_UID" --clear-groups test -x "$dir/etc"; then
        die "the cluster's users cannot reach $dir; a directory above it is closed to others."
    fi
}

# One command at a time changes a cluster. Daemons do not inherit the descriptor.
take_lock() {
    exec 9>>"$dir/etc/cluster"
    if ! flock -w 60 9; then die "another contrib/cluster is at work on $dir."; fi
}

# The first TCP port from $1 to $2 on which a socket of this machine is in one of the states $3, as /proc writes them
# (0A listening, 01 connected). Read rather than tried, so that no daemon sees a connection that says nothing.
first_port_in_state() {
    local low high found
    printf -v low '%04X' "$1"
    printf -v high '%04X' "$2"
    found=$({ cat /proc/net/tcp /proc/net/tcp6 2>/dev/null || true; } | awk -v low="$low" -v high="$high" -v states="$3" '
        { port = substr($2, length($2) - 3) }
        port >= low && port <= high && index(states, $4) { print port; exit }')
    if [ -n "$found" ]; then echo "$((16#$found))"; fi
}

listens() {
    [ -n "$(first_port_in_state "$1" "$1" 0A)" ]
}

check_ports() {
    local busy
    busy=$(first_port_in_state "$port" $((port + PORT_COUNT - 1)) "01 0A")
    if [ -n "$busy" ]; then die "port $busy is in use; choose another --port."; fi
}
