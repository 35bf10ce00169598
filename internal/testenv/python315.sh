#!/bin/sh
# python315.sh [DIR]: unpack Debian's CPython 3.15 into DIR and print the command that runs it.
#
# CPython 3.15 is the reference reader and writer of Tachyon files. No Debian release has it yet, so the script takes
# it from unstable, with the libraries it was built against. It unpacks the packages and does not install them: nothing
# outside DIR changes. By default DIR is where package testenv looks. The script needs apt-get and dpkg, and takes some
# seconds.
set -eu

dir=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/gotach-peers/python3.15}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
python=$dir/python3.15

works() { [ -x "$python" ] && "$python" -c 'import _remote_debugging, profiling.sampling' 2>/dev/null; }

if ! works; then
	# apt gets its own configuration, so that the machine's sources and package lists do not change.
	mirror=$(cat /etc/apt/sources.list.d/*.sources /etc/apt/sources.list 2>/dev/null |
		sed -n -e 's/^URIs: *\([^ ]*\).*/\1/p' -e 's/^deb \(\[[^]]*\] \)\{0,1\}\([^ ]*\) .*/\2/p' | head -n 1)
	[ -n "$mirror" ] || { echo "python315.sh: no Debian mirror in /etc/apt" >&2; exit 1; }
	apt=$dir/apt
	rm -rf "$dir/root" "$dir/debs"
	mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$dir/root" "$dir/debs"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror sid main" >"$apt/sources.list"
	cat >"$apt/apt.conf" <<-EOF
		Dir::Etc::sourcelist "$apt/sources.list";
		Dir::Etc::sourceparts "-";
		Dir::State "$apt";
		Dir::State::lists "$apt/lists";
		Dir::State::status "/var/lib/dpkg/status";
		Dir::Cache "$apt";
		Dir::Cache::archives "$apt/archives";
		Acquire::Languages "none";
		Acquire::Retries "3";
	EOF
	export APT_CONFIG="$apt/apt.conf"
	{
		apt-get -q update
		cd "$dir/debs"
		apt-get -q download python3.15 python3.15-minimal libpython3.15-minimal libpython3.15-stdlib \
			libc6 libgcc-s1 libexpat1 zlib1g libzstd1 libssl3t64 libffi8 libbz2-1.0 liblzma5 libuuid1 \
			libncursesw6 libtinfo6 libreadline8t64 libcrypt1
	} >"$dir/log" 2>&1 || { cat "$dir/log" >&2; exit 1; }
	for deb in "$dir"/debs/*.deb; do dpkg-deb -x "$deb" "$dir/root"; done
	loader=$(find "$dir/root/usr/lib" "$dir/root/lib" -name 'ld-linux*.so.*' 2>/dev/null | head -n 1)
	cat >"$python" <<-EOF
		#!/bin/sh
		export PYTHONHOME="$dir/root/usr" PYTHONDONTWRITEBYTECODE=1
		exec "$loader" --library-path "$(dirname "$loader")" --argv0 "$python" "$dir/root/usr/bin/python3.15" "\$@"
	EOF
	chmod +x "$python"
	rm -rf "$dir/debs" "$apt"
	works || { echo "python315.sh: $python does not run" >&2; exit 1; }
fi
echo "$python"
