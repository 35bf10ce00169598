#!/bin/sh
# chdb.sh [DIR]: unpack chdb, ClickHouse in one process, from npm into DIR, and print the directory.
#
# The script is for the step night. It unpacks exactly this version and runs nothing of it. Nothing outside DIR changes.
# By default DIR is where package testenv looks. The script needs npm, and takes some seconds (180 MB, 560 MB unpacked).
set -eu

version=26.7.3-stable.1
dir=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/gotach-peers/chdb}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
case $(uname -m) in aarch64 | arm64) arch=arm64 ;; *) arch=x64 ;; esac

if [ "$(cat "$dir/version" 2>/dev/null)" != "$version" ]; then
	rm -rf "$dir/node_modules"
	mkdir -p "$dir/node_modules/chdb"
	(
		cd "$dir/node_modules/chdb"
		npm pack --silent "@chdb/lib-linux-$arch-gnu@$version" >"$dir/log" 2>&1 || { cat "$dir/log" >&2; echo "chdb.sh: npm cannot get chdb" >&2; exit 1; }
		tar -xzf ./*.tgz --strip-components 1
		rm -f ./*.tgz
	)
	echo "$version" >"$dir/version"
fi
echo "$dir"
