# Tools that tests need from the registries of their languages, by name, in a cache outside the tree. To be sourced.
#
# A tool that cannot be had is left out, which `end_tools` tells, and which is a failure with CI=true.
# shellcheck shell=bash

tools="${XDG_CACHE_HOME:-$HOME/.cache}/trade-thesis/tools"
left_out=()
# Python writes nothing into the tree.
export PYTHONDONTWRITEBYTECODE=1

# have NAME FILE COMMAND…: installs a tool by a command unless a file of it is there. False if it could not be.
have() {
  local name="$1" file="$2" told
  shift 2
  [ -e "$file" ] || told="$(install_alone "$file" "$@" 2>&1)" || { left_out+=("$name: $(tail -n 1 <<<"$told")") && false; }
}

# install_alone FILE COMMAND…: installs a tool while no other run of a test installs one, unless another one just did.
install_alone() {
  local file="$1"
  shift
  mkdir -p "$tools" || return
  (
    # Where there is no flock, runs must not install at the same time.
    ! command -v flock >/dev/null || flock 9
    # What the command leaves running does not keep the lock.
    [ -e "$file" ] || "$@" 9>&-
  ) 9>"$tools/lock"
}

# install_python FOLDER PACKAGE==VERSION…: a Python of its own with packages of PyPI. Appears when it is whole.
install_python() {
  local folder="$1"
  shift
  python3 -m venv --clear "$folder.new" &&
    "$folder.new/bin/pip" install --quiet --disable-pip-version-check "$@" &&
    # Its programs name the Python that runs them by its path: in their first line or, where that would be too long for one, in
    # their second.
    { grep -lIF "$folder.new/" "$folder.new"/bin/* || true; } | xargs -r sed -i "1,2s|$folder.new/|$folder/|" &&
    rm -rf "$folder" && mv "$folder.new" "$folder"
}

# install_node FOLDER PACKAGE@VERSION…: a folder with npm packages in its `node_modules`. Appears when it is whole.
install_node() {
  local folder="$1"
  shift
  rm -rf "$folder.new" && mkdir -p "$folder.new" &&
    npm install --silent --prefix "$folder.new" "$@" &&
    rm -rf "$folder" && mv "$folder.new" "$folder"
}

# install_go_program FOLDER PACKAGE@VERSION: a program that is written in Go.
install_go_program() { GOBIN="$1" go install "$2"; }

# install_go_source FOLDER NAME SOURCE MODULE@VERSION…: a program that needs these modules, of the files of this tree whose names
# begin with SOURCE. Its folder appears when it is whole.
install_go_source() {
  local folder="$1" name="$2" source="$3"
  shift 3
  rm -rf "$folder.new" && mkdir -p "$folder.new" && cp "$source"*.go "$folder.new" &&
    (cd "$folder.new" && go mod init "$name" && go get "$@" && go mod tidy && go build -trimpath -ldflags '-s -w' -o "$name" .) &&
    rm -rf "$folder" && mv "$folder.new" "$folder"
}

# install_go_modules FOLDER NAME MODULE@VERSION…: the `go.mod` and the `go.sum` of a module with this name that needs others,
# which are in Go's cache then.
install_go_modules() {
  local folder="$1" name="$2"
  shift 2
  rm -rf "$folder.new" && mkdir -p "$folder.new" &&
    (cd "$folder.new" && go mod init "$name" && go get "$@" && go mod download all) &&
    rm -rf "$folder" && mv "$folder.new" "$folder"
}

# install_rust_source FOLDER NAME SOURCE CRATE@VERSION…: a program of one file of this tree that needs these crates. Its folder
# appears when it is whole. `.ci/run` lets clippy compile, whose lints do not concern it.
install_rust_source() {
  local folder="$1" name="$2" source="$3"
  shift 3
  rm -rf "$folder.new" && mkdir -p "$folder.new/src" && cp "$source" "$folder.new/src/main.rs" &&
    printf '[package]\nname = "%s"\nversion = "0.0.0"\nedition = "2024"\n\n[workspace]\n' "$name" >"$folder.new/Cargo.toml" &&
    (cd "$folder.new" && cargo add --quiet "$@" &&
      env -u RUSTC_WORKSPACE_WRAPPER -u CLIPPY_ARGS cargo build --quiet --release --target-dir target) &&
    cp "$folder.new/target/release/$name" "$folder.new/" && rm -rf "$folder.new/target" "$folder" && mv "$folder.new" "$folder"
}

# install_debian PACKAGE…: packages of Debian, where the user is root.
install_debian() { apt-get install -qq -y "$@" || { apt-get update -qq && apt-get install -qq -y "$@"; }; }

# unpack_debian FOLDER PACKAGE: a package of Debian, with what it needs and this machine lacks, unpacked into a folder: nothing is
# installed or started.
unpack_debian() {
  local folder="$1" package="$2" file
  fetch() {
    apt-get install -qq -y --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
      -o Dir::Cache::archives="$folder.new/archives" "$package"
  }
  rm -rf "$folder.new" && mkdir -p "$folder.new/archives/partial" || return
  fetch || { apt-get update -qq && fetch; } || return
  for file in "$folder.new"/archives/*.deb; do
    dpkg-deb --extract "$file" "$folder.new" || return
  done
  rm -rf "$folder.new/archives" "$folder" && mv "$folder.new" "$folder"
}

# find_program: sets `program` to the path that PROGRAM names; without it, to this tree's program, which it builds.
find_program() {
  program="${PROGRAM:-}"
  if [ -z "$program" ]; then
    cargo build --locked --quiet --bin trade-thesis
    program="$(realpath "${CARGO_TARGET_DIR:-target}/debug/trade-thesis")"
  fi
}

# Tells what was left out. Fails if that is something, with CI=true.
end_tools() {
  [ ${#left_out[@]} -gt 0 ] || return 0
  printf 'left out: %s\n' "${left_out[@]}"
  [ "${CI:-}" != true ]
}
