_slurm_failover_completion() {
    local IFS=$'\n'
    local response

    response=$(env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD _SLURM_FAILOVER_COMPLETE=bash_complete $1)

    while IFS=',' read -r type value; do
        if [[ $type == 'dir' ]]; then
            COMPREPLY=()
            compopt -o dirnames
        elif [[ $type == 'file' ]]; then
            COMPREPLY=()
            compopt -o default
        elif [[ $type == 'plain' ]]; then
            COMPREPLY+=("$value")
        fi
    done <<< "$response"

    return 0
}

_slurm_failover_completion_setup() {
    complete -o nosort -F _slurm_failover_completion slurm-failover
}

_slurm_failover_completion_setup;
