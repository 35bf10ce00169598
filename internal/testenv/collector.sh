#!/bin/sh
# collector.sh [DIR]: build an OpenTelemetry Collector in DIR, and print its path.
#
# It receives OTLP and writes files. It is built from the Go module proxy with the Collector's builder, which takes three
# minutes and more, so the script is for the step night. By default DIR is where package testenv looks. Go's caches grow;
# nothing else outside DIR changes.
set -eu

version=v0.161.0
dir=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/gotach-peers/collector}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)

if [ "$(cat "$dir/version" 2>/dev/null)" != "$version" ]; then
	cat >"$dir/builder.yaml" <<-EOF
		dist:
		  name: otelcol
		  output_path: $dir/out
		  module: example.com/otelcol
		receivers:
		  - gomod: go.opentelemetry.io/collector/receiver/otlpreceiver $version
		exporters:
		  - gomod: github.com/open-telemetry/opentelemetry-collector-contrib/exporter/fileexporter $version
	EOF
	{
		cd "$dir" # not in a module
		GOFLAGS= GOBIN=$dir/bin go install go.opentelemetry.io/collector/cmd/builder@v0.164.0
		GOFLAGS= "$dir/bin/builder" --skip-strict-versioning --config "$dir/builder.yaml"
	} >"$dir/log" 2>&1 || { cat "$dir/log" >&2; exit 1; }
	mv "$dir/out/otelcol" "$dir/otelcol"
	rm -rf "$dir/out" "$dir/bin"
	echo "$version" >"$dir/version"
fi
echo "$dir/otelcol"
