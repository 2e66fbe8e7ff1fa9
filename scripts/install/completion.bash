# shellcheck shell=bash
# Completion in bash of a program of libgasnet, the one that this file is named after: the options
# that its --help lists; files otherwise.
_gasnet() {
    local word=${COMP_WORDS[COMP_CWORD]}
    COMPREPLY=()
    [[ $word == -* ]] || return 0
    mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" --help 2>/dev/null |
        grep -oE '(^|[ ,])--?[a-zA-Z][a-zA-Z-]*' | tr -d ' ,' | sort -u)" -- "$word")
}
complete -o default -F _gasnet -- "${BASH_SOURCE[0]##*/}"
