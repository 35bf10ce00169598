#!/bin/sh
# kubectl-validate.sh [DIR]: build kubectl-validate in DIR, and print its path.
#
# It checks manifests against the schemas of Kubernetes that are built into it, and needs no cluster. It is built from the Go
# module proxy, so the script is for the step night. By default DIR is where package testenv looks. Go's caches grow; nothing
# else outside DIR changes.
set -eu

version=v0.0.4
dir=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/gotach-peers/kubectl-validate}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)

if [ "$(cat "$dir/version" 2>/dev/null)" != "$version" ]; then
	(
		cd "$dir" # not in a module
		GOFLAGS= GOBIN=$dir go install "sigs.k8s.io/kubectl-validate@$version"
	) >"$dir/log" 2>&1 || { cat "$dir/log" >&2; exit 1; }
	echo "$version" >"$dir/version"
fi
echo "$dir/kubectl-validate"
