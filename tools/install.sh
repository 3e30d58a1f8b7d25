#!/bin/sh
# Bring the virtual environment up to date: install.sh FOLDER EXTRAS [PYTHON]
#
# EXTRAS is "", "report", "test" or "test,bench". Makes the environment with the first Python that can,
# and installs the package and the extras unless pyproject.toml and the constraints are as they
# were at the last installation of at least as much. Then nothing reaches for the network.
set -eu

folder=$1
extras=$2
chosen=${3:-}
constraints=${CONSTRAINTS:-constraints/tested.txt}

# A name on PATH is not enough: version managers leave stand-ins that only say what is missing,
# and some systems ship Python without the modules that make environments.
usable='import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))'

make_environment() {
    for python in ${chosen:-python3.13 python3.12 python3.11 python3}; do
        if "$python" -c "$usable" >/dev/null 2>&1; then
            echo "making $folder with $("$python" --version)"
            "$python" -m venv "$folder"
            return
        fi
    done
    if [ -n "$chosen" ]; then
        echo "make: $chosen is no Python from 3.11 on with the modules venv and ensurepip" >&2
    else
        echo "make: found no Python from 3.11 on with the modules venv and ensurepip" \
            "(Debian, Ubuntu: apt install python3-venv); or name one: make PYTHON=/path/to/python" >&2
    fi
    exit 1
}

stamp() {
    echo "$folder/.installed${1:+-$1}"
}

# The stamp is a copy of what was installed from, so that a checkout that only touches
# pyproject.toml installs nothing.
installed() {
    for more in "" report test test,bench test,fuzz test,cuda12 test,cuda13; do
        # The tests need the extra report, too.
        case "$extras-$more" in report-test*) ;; *)
            case "$more" in "$extras"*) ;; *) continue ;; esac
        esac
        if cat pyproject.toml "$constraints" | cmp -s - "$(stamp "$more")"; then return 0; fi
    done
    return 1
}

test -x "$folder/bin/python" || make_environment
if installed; then
    exit 0
fi
echo "installing into $folder ..."
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check \
    --constraint "$constraints" --editable ".${extras:+[$extras]}"
cat pyproject.toml "$constraints" > "$(stamp "$extras")"
