# Sourced by ./run and ./test: sets up .venv once and again when pyproject.toml or constraints.txt change.
# Needs $here, the project's folder. Call: set_up run | set_up test

stop() {
    printf '%s\n' "$*" >&2
    exit 1
}

# Print the first Python of the right age; PYTHON=/path/to/python has the first word.
find_python() {
    for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11 python; do
        if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    found=$(python3 --version 2>/dev/null || echo "no python3")
    stop "cge needs Python 3.11, 3.12 or 3.13, and found $found; install one, or name it: PYTHON=/path/to/python $0"
}

set_up() {
    wanted=$1
    venv=$here/.venv
    stamp=$venv/.stamp-$wanted
    unfinished=$venv/.unfinished
    place=$venv/.place
    key=$(cat "$here/pyproject.toml" "$here/constraints.txt" | cksum)
    if [ ! -e "$unfinished" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$key" ] && [ "$(cat "$place")" = "$here" ]; then
        return
    fi
    python=$(find_python) || exit 1
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        stop "$python has no venv module; install it (on Debian and Ubuntu: apt install python3-venv) and call $0 again"
    case $wanted in
        run) extra='' size='about 150 MB to download, 600 MB on disk' ;;
        test) extra='[dev]' size='about 200 MB to download, 800 MB on disk' ;;
    esac
    printf 'Setting up %s (once, a minute or two; %s).\n' "$venv" "$size" >&2
    # A set-up that was cut off leaves its mark behind, and an environment does not survive being moved: start anew.
    if [ -e "$unfinished" ] || [ "$(cat "$place" 2>/dev/null)" != "$here" ]; then
        rm -rf "$venv"
    fi
    mkdir -p "$venv"
    : >"$unfinished"
    printf '%s' "$here" >"$place"
    [ -x "$venv/bin/python" ] || "$python" -m venv "$venv" || stop "could not make $venv with $python"
    (cd "$here" && "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
        --constraint constraints.txt --editable ".$extra") ||
        stop "pip could not install what cge needs (its message is above); mend that and call $0 again"
    rm -f "$venv"/.stamp-*
    printf '%s' "$key" >"$venv/.stamp-run" # what tests need includes what running needs
    printf '%s' "$key" >"$stamp"
    rm -f "$unfinished"
}
