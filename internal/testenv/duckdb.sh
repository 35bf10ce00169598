#!/bin/sh
# duckdb.sh [DIR]: unpack DuckDB from npm into DIR, and print the directory.
#
# Tests read the tables that gotach writes for databases. The script unpacks exactly this version and runs nothing of it.
# Nothing outside DIR changes. By default DIR is where package testenv looks. The script needs npm, and takes some seconds
# (24 MB).
set -eu

version=1.5.6-r.1
dir=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/gotach-peers/duckdb}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
case $(uname -m) in aarch64 | arm64) arch=arm64 ;; *) arch=x64 ;; esac

if [ "$(cat "$dir/version" 2>/dev/null)" != "$version" ]; then
	rm -rf "$dir/node_modules"
	for name in node-api node-bindings node-bindings-linux-$arch; do
		new=$dir/node_modules/@duckdb/$name
		mkdir -p "$new"
		(
			cd "$new"
			npm pack --silent "@duckdb/$name@$version" >"$dir/log" 2>&1 || { cat "$dir/log" >&2; echo "duckdb.sh: npm cannot get $name" >&2; exit 1; }
			tar -xzf ./*.tgz --strip-components 1
			rm -f ./*.tgz
		)
	done
	echo "$version" >"$dir/version"
fi
echo "$dir"
