// Package dcpi reads and writes profiles of DCPI, the continuous profiler of
// Digital's Alpha systems, which know nothing of stacks: they count how often
// each instruction address was the sampled one.
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
// All integers are little-endian. The count i of a chunk belongs to the address
// tstart + offset + i, or tstart + offset + i × N where the header has a line
// "x-unit N". Chunks ascend and do not overlap; nothing follows the footer.
//
// Required lines, each exactly once: version, image, epoch, platform, event,
// period, tstart, tsize, cpuspeed. Optional ones: cpuamask, cpuimplv, cpucount,
// path. The first page of dcpiformat(4) that survives lost version and tstart;
// [Options].Lax reads files written by it. Lines with other words are kept byte
// for byte and in place, as the page demands of every program that rewrites a
// profile. The binary part is documented for major version 0 alone.
//
// A profile of a Go program has the event cpu_ns, its samples on a CPU, or
// wall_ns, all of them. The period is the time that a sample stands for on average,
// and counts follow time; see [FromSession].
package dcpi
