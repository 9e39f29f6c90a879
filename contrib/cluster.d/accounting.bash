# shellcheck shell=bash
# The cluster's accounts, users and QOS in slurmdbd. slurmctld refuses to start for the first time before this is done.

mapfile -t QOS_TABLE < <(sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$(dirname "${BASH_SOURCE[0]}")/../qos.table")
readonly QOS_TABLE
ALLOWED_QOS=$(printf '%s,' normal "${QOS_TABLE[@]%% *}") # of every association, the first by default
readonly ALLOWED_QOS=${ALLOWED_QOS%,}

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
    local line qos priority preempts settings
    local -a more
    accounting add qos "${ALLOWED_QOS#*,}"
    for line in "${QOS_TABLE[@]}"; do
        read -r qos priority preempts settings <<<"$line"
        read -r -a more <<<"$(settings_by_tres no "$settings")"
        if [ "$preempts" != - ]; then more+=("preempt=$preempts"); fi
        accounting modify qos "$qos" set "priority=$priority" "${more[@]}"
    done
}

# slurmdbd knows GPUs as a TRES only after slurmctld has told it of AccountingStorageTRES.
limit_qos() {
    local line qos settings done_file="$dir/etc/limits.done"
    local -a more
    if [ -e "$done_file" ]; then return 0; fi
    for line in "${QOS_TABLE[@]}"; do
        read -r qos _ _ settings <<<"$line"
        read -r -a more <<<"$(settings_by_tres yes "$settings")"
        if [ "${#more[@]}" -gt 0 ]; then accounting modify qos "$qos" set "${more[@]}"; fi
    done
    touch "$done_file"
}

# Those of the settings that name a GRES (yes), or the others (no).
settings_by_tres() {
    local setting
    for setting in $2; do
        if [[ $setting == *gres/* ]]; then [ "$1" = no ] || printf '%s ' "$setting"; else [ "$1" = yes ] || printf '%s ' "$setting"; fi
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
