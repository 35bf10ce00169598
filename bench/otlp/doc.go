// Package otlp decodes the OTLP profiles that gotach writes, with the protocol's own code.
package otlp
