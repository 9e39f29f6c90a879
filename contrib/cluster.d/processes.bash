# shellcheck shell=bash
# Starts and ends the daemons of a cluster. A daemon is known by its process id and the time at which that process
# started, so that an id the kernel gave to another process meanwhile is never signalled.

readonly START_DEADLINE_S=30
readonly NODES_DEADLINE_S=60
readonly STOP_DEADLINE_S=20

log_that_matters=''
stat_state='' stat_parent='' stat_session='' stat_started=''
daemon_pid='' daemon_started=''

in_cluster() {
    env "${cluster_environment[@]}" "$@"
}

# ---- starting ----

# Daemons see a plain environment, whatever the caller's is; only QUOTAMARKET_* passes, for the plugins.
launch() {
    local daemon=$1 uid=$2 variable
    local -a environment=(PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8)
    shift 2
    for variable in TZ "${!QUOTAMARKET_@}"; do
        if [ -n "${!variable:-}" ]; then environment+=("$variable=${!variable}"); fi
    done
    log_that_matters="$dir/log/$daemon.stderr.log"
    (
        close_inherited_descriptors
        cd "$dir/log" || exit
        umask 022
        exec env -i --default-signal "${environment[@]}" "${cluster_environment[@]}" \
            setsid setpriv --reuid="$uid" --regid="$uid" --clear-groups -- "$@"
    ) </dev/null >"$log_that_matters" 2>&1 &
    read_stat "$!" || die "$daemon ended at once."
    echo "$! $stat_started" >"$dir/pids/$daemon"
}

# A daemon that kept a pipe of the caller's open would make `out=$(contrib/cluster up …)` wait for ever.
close_inherited_descriptors() {
    local path descriptor
    for path in /proc/"$BASHPID"/fd/*; do
        descriptor=${path##*/}
        if [ "$descriptor" -gt 2 ] && [ "$descriptor" -ne 255 ]; then exec {descriptor}>&-; fi
    done
}

launch_daemon() {
    if daemon_runs "$1"; then die "$1 already runs as process $daemon_pid."; fi
    case $1 in
        munged)
            launch munged "$SLURM_UID" munged --foreground --key-file="$dir/etc/munge.key" --socket="$dir/run/munge.socket" \
                --pid-file="$dir/run/munged.pid" --seed-file="$dir/run/munged.seed"
            ;;
        mariadbd) launch mariadbd "$SLURM_UID" mariadbd "${MARIADB_OPTIONS[@]}" --datadir="$dir/db/data" --tmpdir="$dir/db/tmp" \
            --socket="$dir/db/socket" --pid-file="$dir/db/pid" --bind-address=127.0.0.1 --port=$((port + 2)) \
            --init-file="$dir/etc/database.sql" ;;
        slurmdbd) launch slurmdbd "$SLURM_UID" slurmdbd -D ;;
        slurmctld) launch slurmctld "$SLURM_UID" slurmctld -D ;;
        quotamarketd)
            rm -f "$dir/run/market.sock" # what a killed one left behind is no sign that this one is ready
            launch quotamarketd "$SLURM_UID" "$dir/bin/quotamarketd"
            ;;
        slurmd[1-4]) launch "$1" 0 slurmd -D -N "gpu${1#slurmd}" ;;
    esac
}

# No fsync: each commit is handed to the kernel, so killing mariadbd loses nothing; only a crash of the machine would.
readonly MARIADB_OPTIONS=(
    --no-defaults --skip-log-bin --performance-schema=OFF --skip-name-resolve
    --innodb-buffer-pool-size=64M --innodb-log-file-size=64M --innodb-lock-wait-timeout=900
    --innodb-flush-log-at-trx-commit=2 --innodb-flush-method=nosync
)

make_database() {
    log_that_matters="$dir/log/mariadb-install-db.log"
    rm -rf "${dir:?}/db/data" "${dir:?}/db/tmp"
    mkdir "$dir/db/tmp" # of its own, because a MariaDB that starts deletes the temporary tables that it finds
    own_by "$SLURM_UID" "$dir/db/tmp"
    if ! in_cluster setpriv --reuid="$SLURM_UID" --regid="$SLURM_UID" --clear-groups \
        mariadb-install-db "${MARIADB_OPTIONS[@]}" --datadir="$dir/db/data" --tmpdir="$dir/db/tmp" --skip-test-db \
        --auth-root-authentication-method=socket --auth-root-socket-user="$SLURM_USER" </dev/null >"$log_that_matters" 2>&1; then
        die "mariadb-install-db failed."
    fi
    touch "$dir/db/complete"
}

is_ready() {
    case $1 in
        munged) [ -S "$dir/run/munge.socket" ] && munge --socket="$dir/run/munge.socket" --no-input --output=/dev/null 2>/dev/null ;;
        mariadbd) listens $((port + 2)) ;;
        slurmdbd) listens $((port + 1)) ;;
        slurmctld) listens "$port" ;;
        quotamarketd) [ -S "$dir/run/market.sock" ] ;;
        slurmd[1-4]) listens $((port + 2 + ${1#slurmd})) ;;
    esac
}

await_daemon() {
    local deadline=$((SECONDS + START_DEADLINE_S))
    until is_ready "$1"; do
        if ! daemon_runs "$1"; then die "$1 ended while it started."; fi
        if [ "$SECONDS" -ge "$deadline" ]; then die "$1 was not ready after $START_DEADLINE_S s."; fi
        sleep 0.05
    done
}

start_daemon() {
    launch_daemon "$1"
    await_daemon "$1"
}

# A node that is at work again after a second `up` is as good as an idle one.
await_nodes() {
    local deadline=$((SECONDS + NODES_DEADLINE_S)) states daemon
    until states=$(in_cluster sinfo -h -N -p gpu -o '%N %T' 2>/dev/null) &&
        [ "$(grep -cE ' (idle|mixed|allocated|completing)$' <<<"$states")" -eq 4 ]; do
        for daemon in slurmd1 slurmd2 slurmd3 slurmd4 slurmctld; do
            log_that_matters="$dir/log/$daemon.stderr.log"
            if ! daemon_runs "$daemon"; then die "$daemon ended while the nodes registered."; fi
        done
        if [ "$SECONDS" -ge "$deadline" ]; then
            die "the nodes were not idle after $NODES_DEADLINE_S s: ${states//$'\n'/, }."
        fi
        sleep 0.1
    done
}

# ---- ending ----

# Reads state, parent, session and start time (clock ticks since boot) of a process; fails if there is none.
read_stat() {
    local line
    local -a fields
    { IFS= read -r -d '' line || [ -n "$line" ]; } 2>/dev/null <"/proc/$1/stat" || return 1
    read -r -a fields <<<"${line##*) }" # the command's name before it may hold anything
    stat_state=${fields[0]} stat_parent=${fields[1]} stat_session=${fields[3]} stat_started=${fields[19]}
}

same_process_lives() {
    read_stat "$1" && [ "$stat_started" = "$2" ] && [ "$stat_state" != Z ]
}

# Also sets daemon_pid and daemon_started, as recorded.
daemon_runs() {
    daemon_pid='' daemon_started=''
    if [ ! -s "$dir/pids/$1" ]; then return 1; fi
    read -r daemon_pid daemon_started <"$dir/pids/$1"
    same_process_lives "$daemon_pid" "$daemon_started"
}

any_daemon_runs() {
    local daemon
    for daemon in "${DAEMONS[@]}"; do
        if daemon_runs "$daemon"; then return 0; fi
    done
    return 1
}

# Signals daemons and waits until they and the rest of their sessions (slurmctld's slurmscriptd) are gone.
end_daemons() {
    local signal=$1 daemon pid deadline=$((SECONDS + STOP_DEADLINE_S))
    local -a leaders=() remaining
    shift
    for daemon in "$@"; do
        if daemon_runs "$daemon"; then
            leaders+=("$daemon_pid:$daemon_started")
            kill "-$signal" "$daemon_pid" 2>/dev/null || true
            kill -CONT "$daemon_pid" 2>/dev/null || true # it may have been frozen
        fi
    done
    while :; do
        mapfile -t remaining < <(sessions_of "${leaders[@]}")
        if [ "${#remaining[@]}" -eq 0 ]; then break; fi
        if [ "$SECONDS" -ge "$deadline" ] || [ "$signal" = KILL ]; then
            for pid in "${remaining[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
        fi
        if [ "$SECONDS" -ge $((deadline + STOP_DEADLINE_S)) ]; then die "process ${remaining[0]} does not end."; fi
        sleep 0.05
    done
    for daemon in "$@"; do rm -f "$dir/pids/$daemon"; done
}

# The processes in the sessions led by "pid:start"; a leader may be dead already while its session lives on.
sessions_of() {
    local leader path
    local -A started_at=()
    if [ "$#" -eq 0 ]; then return 0; fi
    for leader in "$@"; do
        if read_stat "${leader%:*}" && [ "$stat_started" != "${leader#*:}" ]; then continue; fi
        started_at[${leader%:*}]=${leader#*:}
    done
    for path in /proc/[0-9]*; do
        if read_stat "${path#/proc/}" && [ "$stat_state" != Z ] && [ -n "${started_at[$stat_session]:-}" ] &&
            [ "$stat_started" -ge "${started_at[$stat_session]}" ]; then
            echo "${path#/proc/}"
        fi
    done
}

stop_daemon() {
    if ! daemon_runs "$1"; then die "$1 does not run."; fi
    end_daemons TERM "$1"
}

kill_daemon() {
    if ! daemon_runs "$1"; then die "$1 does not run."; fi
    end_daemons KILL "$1"
}

end_all_processes() {
    end_daemons TERM slurmctld slurmd1 slurmd2 slurmd3 slurmd4
    end_leftovers
    end_daemons TERM quotamarketd slurmdbd
    end_daemons TERM mariadbd munged
}

# slurmstepd leaves its slurmd's session and outlives it, with the job below it; a controller that was killed from
# outside leaves its slurmscriptd.
end_leftovers() {
    local pid round
    local -a leftovers
    for round in {1..100}; do
        mapfile -t leftovers < <(leftover_processes)
        if [ "${#leftovers[@]}" -eq 0 ]; then return 0; fi
        for pid in "${leftovers[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
        sleep 0.05
    done
    die "process ${leftovers[0]} of a job does not end after $round tries."
}

leftover_processes() {
    local path pid parent grown=yes
    local -A parent_of=() ours=()
    for path in /proc/[0-9]*; do
        pid=${path#/proc/}
        if ! read_stat "$pid" || [ "$stat_state" = Z ]; then continue; fi
        parent_of[$pid]=$stat_parent
        if is_slurm_process "$path" && has_file_below_dir "$path"; then ours[$pid]=yes; fi
    done
    while read -r pid; do ours[$pid]=yes; done < <(job_processes && user_processes)
    while [ -n "$grown" ]; do
        grown=
        for pid in "${!parent_of[@]}"; do
            parent=${parent_of[$pid]}
            if [ -n "${ours[$parent]:-}" ] && [ -z "${ours[$pid]:-}" ]; then ours[$pid]=yes grown=yes; fi
        done
    done
    if [ "${#ours[@]}" -gt 0 ]; then printf '%s\n' "${!ours[@]}"; fi
}

is_slurm_process() {
    local program
    for program in /usr/sbin/slurmstepd /usr/sbin/slurmctld /usr/sbin/slurmd; do
        if [[ $1/exe -ef $program ]]; then return 0; fi
    done
    return 1
}

has_file_below_dir() {
    { readlink "$1"/cwd "$1"/fd/* 2>/dev/null || true; } | grep -F "$dir/" >/dev/null
}

# What a job left behind when it went into a session of its own and dropped its environment.
user_processes() {
    local uid path
    local -A is_user=()
    while IFS=: read -r _ _ uid _; do is_user[$uid]=yes; done < <(grep -vE "^(root|$SLURM_USER):" "$dir/etc/passwd" 2>/dev/null)
    { stat -c '%u %n' /proc/[0-9]* 2>/dev/null || true; } | while read -r uid path; do
        if [ -n "${is_user[$uid]:-}" ] && has_file_below_dir "$path"; then echo "${path#/proc/}"; fi
    done
}

# Processes with a job's environment of this cluster, wherever they were reparented to. SLURM_CONF alone would also
# find the shells and tests that merely use the cluster; SLURMD_NODENAME is set in jobs only.
job_processes() {
    local file
    grep -lzxF -- "SLURM_CONF=$dir/etc/slurm.conf" /proc/[0-9]*/environ 2>/dev/null | while read -r file; do
        if grep -qzE '^SLURMD_NODENAME=gpu[1-4]$' "$file" 2>/dev/null; then
            file=${file#/proc/}
            echo "${file%/environ}"
        fi
    done || true
}
