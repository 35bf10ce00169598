// Package dcpi reads and writes profiles of DCPI, the continuous profiler of
// Digital's Alpha systems. These profiles have no stacks. They count how many
// samples each instruction address has.
//
// A file is an ASCII header, one "word value" line each, and a binary part:
//
//	version	pdb-0.07
//	image	20261121033416a1b2c3
//	epoch	2611210334
//	platform	devbox
//	event	cpu_ns
//	period	10000000
//	tstart	401000
//	tsize	1048576
//	cpuspeed	2600
//	samples   			ends the header; white space pads it to a multiple of 4
//	<chunk>* <footer>
//
//	chunk   u32 offset, u32 number, number × u32 count
//	footer  u32 addresses with samples, u32 sum of all counts
//
// All integers are little-endian. Count number i of a chunk belongs to the address
// tstart + offset + i. If the header has a line "x-unit N", the address is
// tstart + offset + i × N. Chunks ascend and do not overlap. Nothing follows the footer.
//
// Required lines, each exactly once: version, image, epoch, platform, event,
// period, tstart, tsize, cpuspeed. Optional ones: cpuamask, cpuimplv, cpucount,
// path. The known copy of the manual page dcpiformat(4) lacks version and tstart;
// [Options].Lax reads files without them. The page demands that a program which
// rewrites a profile keeps lines with other words, byte for byte and in place. The
// binary part is documented for major version 0 only.
//
// A profile of a Go program has the event cpu_ns or wall_ns. cpu_ns counts the
// samples on a CPU, wall_ns counts all samples. The period is the mean time that a
// sample stands for, and counts are in proportion to time; see [FromSession].
package dcpi
