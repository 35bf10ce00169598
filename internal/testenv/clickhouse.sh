#!/bin/sh
# clickhouse.sh [DIR]: unpack Debian's ClickHouse into DIR, and print the command of its server.
#
# A test starts two servers as shards. The script is for the step night. It unpacks the packages and does not install them:
# nothing outside DIR changes. By default DIR is where package testenv looks. The script needs apt-get and dpkg, and takes
# some seconds.
set -eu

dir=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/gotach-peers/clickhouse}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
server=$dir/clickhouse-server

works() { [ -x "$server" ] && "$server" --help 2>&1 | grep -q option; }

if ! works; then
	rm -rf "$dir/root" "$dir/debs"
	mkdir -p "$dir/root" "$dir/debs"
	{
		apt-cache show clickhouse-server >/dev/null 2>&1 || apt-get -q update
		cd "$dir/debs"
		# Those of its libraries that are installed here are not needed.
		# shellcheck disable=SC2046
		apt-get -q download $(apt-get -s -q --no-install-recommends install clickhouse-server | sed -n 's/^Inst \([^ ]*\) .*/\1/p')
	} >"$dir/log" 2>&1 || { cat "$dir/log" >&2; exit 1; }
	for deb in "$dir"/debs/*.deb; do dpkg-deb -x "$deb" "$dir/root"; done
	cat >"$server" <<-EOF
		#!/bin/sh
		export LD_LIBRARY_PATH="$(find "$dir/root" -name '*.so*' -exec dirname {} \; | sort -u | paste -sd: -)"
		exec "$dir/root/usr/sbin/clickhouse-server" "\$@"
	EOF
	chmod +x "$server"
	rm -rf "$dir/debs"
	works || { echo "clickhouse.sh: $server does not run" >&2; exit 1; }
fi
echo "$server"
