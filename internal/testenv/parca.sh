#!/bin/sh
# parca.sh [DIR]: build Parca's profile store and query service in DIR, and print the path of the program.
#
# The program is cmd/gotach/internal/fleet/testdata/parca. It is built from the Go module proxy, with the versions that Parca has in its
# go.mod. That takes some minutes, so the script is for the step night. By default DIR is where package testenv looks. Go's
# caches grow; nothing else outside DIR changes.
set -eu

version=v0.28.0
source=$(cd "$(dirname "$0")/../../cmd/gotach/internal/fleet/testdata/parca" && pwd)/main.go
dir=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/gotach-peers/parca}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)

if ! { [ "$(cat "$dir/version" 2>/dev/null)" = "$version" ] && cmp -s "$source" "$dir/src/main.go"; }; then
	rm -rf "$dir/src" && mkdir -p "$dir/src"
	{
		cd "$dir/src"
		GOFLAGS= go mod download "github.com/parca-dev/parca@$version"
		module=$(go env GOMODCACHE)/github.com/parca-dev/parca@$version
		{
			printf 'module example.com/parca\n\ngo 1.25.0\n\nrequire github.com/parca-dev/parca %s\n\n' "$version"
			sed -n '/^require/,$p' "$module/go.mod"
		} >go.mod
		cat "$module/go.sum" >go.sum
		cp "$source" main.go
		GOFLAGS=-mod=mod go build -o "$dir/parca" .
	} >"$dir/log" 2>&1 || { rm -f "$dir/src/main.go"; cat "$dir/log" >&2; exit 1; }
	echo "$version" >"$dir/version"
fi
echo "$dir/parca"
