# Sourced by ./run and ./test: creates .venv on first use, and updates it when pyproject.toml or constraints.txt change.
# Needs $here, the project's folder. Call: set_up run | set_up test

stop() {
    printf '%s\n' "$*" >&2
    exit 1
}

suits() {
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null
}

# Print the Python to use: the one that PYTHON names, else the first of the right age.
find_python() {
    if [ -n "${PYTHON:-}" ]; then
        suits "$PYTHON" || stop "PYTHON names $PYTHON, which is not a working Python 3.11, 3.12 or 3.13"
        command -v "$PYTHON"
        return
    fi
    for candidate in python3 python3.13 python3.12 python3.11 python; do
        if suits "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    found=$(python3 --version 2>/dev/null || echo "no python3")
    stop "cge needs Python 3.11, 3.12 or 3.13, and found $found; install one, or name it: PYTHON=/path/to/python $0"
}

is_set_up() {
    [ ! -e "$venv/.unfinished" ] && [ "$(cat "$venv/.stamp-$wanted" 2>/dev/null)" = "$key" ] &&
        [ "$(cat "$venv/.place" 2>/dev/null)" = "$here" ]
}

set_up() {
    wanted=$1
    venv=$here/.venv
    lock=$here/.venv.lock
    key=$(cat "$here/pyproject.toml" "$here/constraints.txt" | cksum)
    is_set_up || install
    # Compiled kernels are kept by the state of the sources: a kernel inlined elsewhere must not survive its change.
    state=$(find "$here/src" -name '*.py' -type f | LC_ALL=C sort | tr '\n' '\0' | xargs -0 cat | cksum | tr ' ' '-')
    NUMBA_CACHE_DIR=${NUMBA_CACHE_DIR:-$venv/kernels/$state}
    export NUMBA_CACHE_DIR
    if [ ! -d "$NUMBA_CACHE_DIR" ]; then
        mkdir -p "$NUMBA_CACHE_DIR" # first, and others only: a second call may be here at the same time
        for old in "$venv"/kernels/*; do
            [ "$old" = "$NUMBA_CACHE_DIR" ] || rm -rf "$old"
        done
    fi
}

install() {
    python=$(find_python) || exit 1
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        stop "$python has no venv module; install it (on Debian and Ubuntu: apt install python3-venv) and call $0 again"
    # One set-up at a time: wait for another one that lives, take over from one that died.
    until mkdir "$lock" 2>/dev/null; do
        owner=$(cat "$lock/pid" 2>/dev/null || echo)
        if [ -n "$owner" ] && ! kill -0 "$owner" 2>/dev/null; then
            rm -rf "$lock"
        else
            sleep 1
        fi
    done
    echo $$ >"$lock/pid"
    trap 'rm -rf "$lock"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    is_set_up || install_now
    rm -rf "$lock"
    trap - EXIT INT TERM
}

install_now() {
    case $wanted in
        run) extra='' size='about 350 MB to download, 1.6 GB on disk, more where torch brings CUDA' ;;
        test) extra='[dev]' size='about 500 MB to download, 2.1 GB on disk, more where torch brings CUDA' ;;
    esac
    printf 'Setting up %s (once, a minute or two; %s).\n' "$venv" "$size" >&2
    # A set-up that was cut off leaves its mark behind, and an environment does not survive being moved: start anew.
    if [ -e "$venv/.unfinished" ] || [ "$(cat "$venv/.place" 2>/dev/null)" != "$here" ]; then
        rm -rf "$venv"
    fi
    mkdir -p "$venv"
    : >"$venv/.unfinished"
    printf '%s' "$here" >"$venv/.place"
    [ -x "$venv/bin/python" ] || "$python" -m venv "$venv" || stop "could not make $venv with $python"
    (cd "$here" && "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
        --constraint constraints.txt --editable ".$extra") ||
        stop "pip could not install what cge needs (its message is above); mend that and call $0 again"
    rm -f "$venv"/.stamp-*
    printf '%s' "$key" >"$venv/.stamp-run" # what tests need includes what running needs
    printf '%s' "$key" >"$venv/.stamp-$wanted"
    rm -f "$venv/.unfinished"
}
