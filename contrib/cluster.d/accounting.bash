# shellcheck shell=bash
# The cluster's accounts, users and QOS in slurmdbd. slurmctld refuses to start for the first time before this is done.

# name, priority, the QOS that it may preempt
readonly QOS_TABLE=(
    'standard 10 free'
    'free      0 -'
)
readonly ALLOWED_QOS=normal,standard,free # of every association, the first by default

# Each request to slurmdbd takes some 40 ms (its answers meet a delayed acknowledgement), so there are few: one file is
# loaded rather than each account and user added. Loading it again adds only what is new.
set_up_accounting() {
    local done_file="$dir/etc/accounts.done" file="$dir/etc/accounts"
    log_that_matters="$dir/log/slurmdbd.stderr.log"
    { association_lines && printf '# %s\n' "${QOS_TABLE[@]}"; } >"$file"
    if cmp -s "$file" "$done_file"; then return 0; fi
    add_qos
    accounting load "$file"
    cp "$file" "$done_file"
}

add_qos() {
    local line qos priority preempts names
    printf -v names '%s,' "${QOS_TABLE[@]%% *}"
    accounting add qos "${names%,}"
    for line in "${QOS_TABLE[@]}"; do
        read -r qos priority preempts <<<"$line"
        if [ "$preempts" = - ]; then preempts=; fi
        if [ "$priority" -ne 0 ] || [ -n "$preempts" ]; then
            accounting modify qos "$qos" set "priority=$priority" ${preempts:+"preempt=$preempts"}
        fi
    done
}

# The format of `sacctmgr dump` and `sacctmgr load`. A user's default account is the first that lists it.
association_lines() {
    echo "Cluster - '$name':DefaultQOS='${ALLOWED_QOS%%,*}':QOS='$ALLOWED_QOS'"
    echo "Parent - 'root'"
    team_lines | awk -v quote="'" '
        function quoted(word) { return quote word quote }
        !($1 in users) {
            accounts[++count] = $1
            print "Account - " quoted($1) ":Description=" quoted($1) ":Organization=" quoted($1)
        }
        {
            if (!($2 in default_account)) default_account[$2] = $1
            line = "User - " quoted($2) ":DefaultAccount=" quoted(default_account[$2])
            if ($4 != "") line = line ":Coordinator=" quoted($1)
            users[$1] = users[$1] line "\n"
        }
        END { for (i = 1; i <= count; i++) printf "Parent - %s\n%s", quoted(accounts[i]), users[accounts[i]] }'
}

# sacctmgr fails when a thing is there already, which is no failure here.
accounting() {
    local output
    if output=$(in_cluster sacctmgr -i -Q "$@" </dev/null 2>&1); then return 0; fi
    if [[ $output != *"Nothing new added"* ]]; then die "sacctmgr $* failed: $output"; fi
}
