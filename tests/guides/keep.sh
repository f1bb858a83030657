# Writes the variables of this shell to the file $1, to be sourced, and those of its environment to the file $2.
# shellcheck shell=bash
env -0 >"$2"
set +eu
for __name in $(compgen -v); do
  case "$__name" in __* | _ | BASH* | FUNCNAME | SHELLOPTS | PIPESTATUS) continue ;; esac
  __told="$(declare -p "$__name" 2>/dev/null)"
  # Some are only to be read.
  [[ -z "$__told" || "$__told" =~ ^declare\ -[a-zA-Z]*r ]] || printf '%s\n' "$__told"
done >"$1"
