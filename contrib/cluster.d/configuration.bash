# shellcheck shell=bash
# Writes the directories, users and configuration files of a cluster.

# Lines "account user uid [coordinator]".
team_lines() {
    if [ -n "$teams_file" ]; then
        sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$teams_file"
    else
        printf '%s\n' 'vision vis1 61001' 'vision vis2 61002' 'nlp nlp1 61003'
    fi
}

check_teams() {
    local account user uid role
    local -A uid_of=()
    while read -r account user uid role; do
        if [[ ! $account =~ ^[a-z][a-z0-9_]*$ || ! $user =~ ^[a-z][a-z0-9_]*$ || ! $uid =~ ^[1-9][0-9]{3,8}$ ]] ||
            [[ -n $role && $role != coordinator ]]; then
            die "--teams: the line '$account $user $uid $role' is not 'account user uid [coordinator]' with a uid above 999."
        fi
        if [ "$user" = root ] || [ "$user" = "$SLURM_USER" ] || [ "$uid" -eq "$SLURM_UID" ]; then
            die "--teams: the line '$account $user $uid $role' names a user that the cluster has of its own."
        fi
        if [ "${uid_of[$user]:=$uid}" != "$uid" ]; then die "--teams: user $user has two uids, ${uid_of[$user]} and $uid."; fi
    done < <(team_lines)
}

make_directories() {
    local user uid part node gpu
    check_teams
    echo "$name $port" >"$dir/etc/cluster"
    mkdir -p "$dir"/{run,state,ctld,db,spool,log,home,dev,pids}
    for part in run state ctld db; do own_by "$SLURM_UID" "$dir/$part"; done
    chmod 700 "$dir/ctld" "$dir/db"
    for part in slurmctld.log slurmdbd.log; do
        touch "$dir/log/$part"
        own_by "$SLURM_UID" "$dir/log/$part"
    done
    chmod 755 "$dir"/{run,state,spool,log,home,dev,pids}
    for node in 1 2 3 4; do mkdir -p "$dir/spool/gpu$node"; done
    for gpu in {0..7}; do ln -sfn /dev/null "$dir/dev/nvidia$gpu"; done
    write_passwd
    while IFS=: read -r user _ uid _; do
        mkdir -p "$dir/home/$user"
        own_by "$uid" "$dir/home/$user"
    done <"$dir/etc/passwd"
}

own_by() {
    chown "$1:$1" "$2"
}

# Users of the cluster only, each with a group of the same name and number.
write_passwd() {
    {
        echo "root:0"
        echo "$SLURM_USER:$SLURM_UID"
        team_lines | awk '!seen[$2]++ { print $2 ":" $3 }'
    } | awk -F: -v dir="$dir" '{
        print $1 ":x:" $2 ":" $2 "::" dir "/home/" $1 ":/bin/bash" > (dir "/etc/passwd")
        print $1 ":x:" $2 ":" > (dir "/etc/group")
    }'
}

# A secret is made once, so that a second `up` still opens what the first one closed.
write_secret() {
    local path=$1 uid=$2
    shift 2
    if [ -s "$path" ]; then return 0; fi
    (
        umask 077
        "$@" >"$path"
    )
    own_by "$uid" "$path"
    chmod 400 "$path"
}

random_bytes() { head -c 128 /dev/urandom; }
random_word() { head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n'; }

write_configuration() {
    local plugin_path directory
    plugin_path=$(multiarch_path slurm-wlm)
    for directory in "${plugin_dirs[@]}"; do
        if ! setpriv --reuid="$SLURM_UID" --regid="$SLURM_UID" --clear-groups test -r "$directory" -a -x "$directory"; then
            die "the cluster's users cannot read --plugin-dir $directory."
        fi
    done
    plugin_path=$(IFS=: && echo "${plugin_dirs[*]:+${plugin_dirs[*]}:}$plugin_path")
    write_secret "$dir/etc/munge.key" "$SLURM_UID" random_bytes
    write_secret "$dir/etc/database-password" 0 random_word
    write_database_init
    write_slurmdbd_conf
    {
        without_keys_of "${conf_file:-/dev/null}" < <(slurm_lines "$plugin_path")
        if [ -n "$conf_file" ]; then cat "$conf_file"; fi
    } >"$dir/etc/slurm.conf"
    gres_lines >"$dir/etc/gres.conf"
    cgroup_lines >"$dir/etc/cgroup.conf"
    write_market
}

# Jobs are in no cgroup, but slurmd looks for the kernel's unless told which; v1 needs nothing of the machine.
cgroup_lines() {
    if slurm_is_at_least 23.11; then echo "CgroupPlugin=disabled"; else echo "CgroupPlugin=cgroup/v1"; fi
}

# Whatever the given file says, the cluster's daemon keeps to the cluster's directory.
write_market() {
    if [ -z "$market_file" ]; then return 0; fi
    {
        printf 'state_dir = "%s/state"\nsocket_dir = "%s/run"\n' "$dir" "$dir"
        sed -E '/^[[:space:]]*(state_dir|socket_dir)[[:space:]]*=/d' "$market_file"
    } >"$dir/etc/market.toml"
    chmod 644 "$dir/etc/market.toml"
}

# Copies, because the cluster's users may not be able to reach the place where they were built.
install_product() {
    local plugin
    if [ -z "$product_dir" ]; then return 0; fi
    mkdir -p "$dir/bin" "$dir/plugins"
    install -m 755 "$product_dir/quotamarketd" "$product_dir/sbid" "$dir/bin/"
    for plugin in job_submit_bid site_factor_bid priority_bid; do
        install -m 755 "$product_dir/lib$plugin.so" "$dir/plugins/.$plugin.so"
        mv "$dir/plugins/.$plugin.so" "$dir/plugins/$plugin.so" # never under a slurmctld that has it mapped
    done
    plugin_dirs+=("$dir/plugins")
}

# Drops the lines whose key the given file sets too: Slurm would take the last and complain. Nodes and partitions add up.
without_keys_of() {
    awk '
        function key(line) { sub(/^[ \t]*/, "", line); sub(/[ \t]*=.*/, "", line); return tolower(line) }
        !base { if ($0 ~ /^[ \t]*[A-Za-z]+[ \t]*=/) replaced[key($0)] = 1; next }
        key($0) ~ /^(nodename|partitionname)$/ || !(key($0) in replaced)' "$1" base=1 -
}

# Exactly one plugin brings the bids into the priorities: Slurm's site factor, or a priority plugin before Slurm's own.
role_lines() {
    case $role in
        site-factor) printf '%s\n' PriorityType=priority/multifactor PrioritySiteFactorPlugin=site_factor/bid ;;
        priority) echo PriorityType=priority/bid ;;
    esac
}

# What the market needs in any slurm.conf.
market_lines() {
    cat <<END
# The market: last among JobSubmitPlugins. Jobs need associations, and the bid is in the priority and in the comment.
JobSubmitPlugins=bid
$(role_lines)
SchedulerParameters=bf_continue
AccountingStorageEnforce=associations,limits,qos
AccountingStorageTRES=gres/gpu,gres/gpu:a100,gres/gpu:h100
AccountingStoreFlags=job_comment
PreemptType=preempt/qos
PreemptMode=REQUEUE
END
}

slurm_lines() {
    cat <<END
ClusterName=$name
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=$port
SlurmUser=$SLURM_USER
AuthType=auth/munge
AuthInfo=socket=$dir/run/munge.socket,cred_expire=5
PluginDir=$1
StateSaveLocation=$dir/ctld
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/run/slurmctld.pid
SlurmdPidFile=$dir/spool/%n/slurmd.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd-%n.log
SlurmctldDebug=info
SlurmdDebug=info
MailProg=/bin/true
MpiDefault=none

ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=2
InactiveLimit=0
MinJobAge=300
MessageTimeout=10
SlurmctldTimeout=60
SlurmdTimeout=60
JobRequeue=1

SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=256
DefMemPerGPU=1024
SchedulerType=sched/backfill
SchedulerParameters=bf_continue,bf_interval=5,sched_interval=5,batch_sched_delay=0
$(if [ "${#plugin_dirs[@]}" -gt 0 ]; then role_lines; else echo PriorityType=priority/multifactor; fi)
PriorityWeightAge=1000
PriorityWeightFairshare=1000
PriorityWeightQOS=1000
PriorityWeightJobSize=100
PriorityDecayHalfLife=14-0
PriorityCalcPeriod=1

AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=$((port + 1))
AccountingStoragePass=$dir/run/munge.socket
AccountingStorageTRES=gres/gpu,gres/gpu:a100,gres/gpu:h100
AccountingStorageEnforce=associations,limits,qos
AccountingStoreFlags=job_comment
PreemptType=preempt/qos
PreemptMode=REQUEUE

GresTypes=gpu
NodeName=DEFAULT Sockets=2 CoresPerSocket=32 ThreadsPerCore=1 RealMemory=512000 State=UNKNOWN
NodeName=gpu[1-2] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[$((port + 3))-$((port + 4))] Gres=gpu:a100:8
NodeName=gpu[3-4] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[$((port + 5))-$((port + 6))] Gres=gpu:h100:8
PartitionName=DEFAULT DefaultTime=01:00:00 MaxTime=7-00:00:00 State=UP
PartitionName=gpu Nodes=gpu[1-4] Default=YES
PartitionName=a100 Nodes=gpu[1-2]
PartitionName=h100 Nodes=gpu[3-4]
END
    if [ "${#plugin_dirs[@]}" -gt 0 ]; then echo "JobSubmitPlugins=bid"; fi
}

gres_lines() {
    echo "NodeName=gpu[1-2] Name=gpu Type=a100 File=$dir/dev/nvidia[0-7]"
    echo "NodeName=gpu[3-4] Name=gpu Type=h100 File=$dir/dev/nvidia[0-7]"
}

write_slurmdbd_conf() {
    local file="$dir/etc/slurmdbd.conf"
    (
        umask 077
        cat >"$file" <<END
AuthType=auth/munge
AuthInfo=socket=$dir/run/munge.socket
SlurmUser=$SLURM_USER
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort=$((port + 1))
PidFile=$dir/run/slurmdbd.pid
LogFile=$dir/log/slurmdbd.log
DebugLevel=info
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=$((port + 2))
StorageLoc=slurm_acct_db
StorageUser=slurm
StoragePass=$(<"$dir/etc/database-password")
END
    )
    own_by "$SLURM_UID" "$file"
    chmod 600 "$file" # slurmdbd refuses any other
}

write_database_init() {
    local file="$dir/etc/database.sql"
    (
        umask 077
        cat >"$file" <<END
CREATE DATABASE IF NOT EXISTS slurm_acct_db;
CREATE USER IF NOT EXISTS 'slurm'@'127.0.0.1' IDENTIFIED BY '$(<"$dir/etc/database-password")';
GRANT ALL ON slurm_acct_db.* TO 'slurm'@'127.0.0.1';
END
    )
    own_by "$SLURM_UID" "$file"
}
