#!/bin/sh
# npm.sh [DIR]: unpack viewers of profiles, and the checker axe-core, from npm into DIR, and print the directory.
#
# Tests load the files that gotach writes for these viewers with the viewers' own code, which needs no other packages. The
# script unpacks exactly these versions and runs nothing of them. Nothing outside DIR changes. By default DIR is where
# package testenv looks. The script needs npm, and takes some seconds.
set -eu

dir=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/gotach-peers/npm}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)

for package in @firefox-devtools/profiler-cli@0.10.0 speedscope@1.25.0 axe-core@4.10.3; do
	name=${package%@*}
	version=${package##*@}
	name=${name##*/}
	grep -q "\"version\": *\"$version\"" "$dir/$name/package.json" 2>/dev/null && continue
	new=$(mktemp -d "$dir/new.XXXXXX")
	(
		cd "$new"
		npm pack --silent "$package" >log 2>&1 || { cat log >&2; echo "npm.sh: npm cannot get $package" >&2; exit 1; }
		tar -xzf ./*.tgz # makes the folder "package"
	) || { rm -rf "$new"; exit 1; }
	rm -rf "${dir:?}/$name"
	mv "$new/package" "$dir/$name"
	rm -rf "$new"
done
echo "$dir"
