// Time without samples: where the profiler took no tick for much longer than usual.

const gaps = {
	list: [], // {from, to, count, longest, idle}, in order of time

	// prepare unpacks the gaps. What ran in them is known from the samples after them.
	prepare() {
		const ran = ['running', 'no core', 'runnable', 'runtime on CPU'].map((name) => D.classes.indexOf(name)).filter((c) => c >= 0);
		let at = 0;
		// While only some of the files are read, there are none between them.
		this.list = head.sketch ? [] : Array.from(D.gapFrom, (v, i) => {
			const from = at + v, to = at = from + D.gapLength[i];
			const time = ran.reduce((sum, c) => sum + strip.until(c, to) - strip.until(c, from), 0);
			return {from, to, count: D.gapCount[i], longest: D.gapLongest[i], idle: time < (to - from) / 10 && this.counts(from, to).idle > 0};
		});
	},

	// within returns the gaps that have time between two times.
	within(from, to) {
		let low = -1, high = this.list.length; // the first one that ends later
		while (high - low > 1) {
			const middle = (low + high) >> 1;
			if (this.list[middle].to > from) high = middle;
			else low = middle;
		}
		const out = [];
		for (; high < this.list.length && this.list[high].from < to; high++) out.push(this.list[high]);
		return out;
	},

	// counts adds up the ticks that were left out in the files of a time.
	counts(from, to) {
		const sum = {budget: 0, idle: 0, refused: 0, late: 0, throttled_us: 0}, side = sideAt(from);
		const all = side.ticks ? side.ticks.counts : [], some = all.filter((c) => c.from_us < to && c.to_us > from);
		for (const c of some.length ? some : all) for (const name in sum) sum[name] += c[name];
		return sum;
	},

	// lines describe a gap.
	lines(gap) {
		const side = sideAt(gap.from), each = `usually one every ${duration(side.ticks.usual_us)}`;
		const out = [gap.count === 1 ? `no sample for ${duration(gap.to - gap.from)}, ${each}` :
			`${plural(gap.count, 'time')} in ${duration(gap.to - gap.from)} no sample for up to ${duration(gap.longest)}, ${each}`];
		if (gap.idle) return [...out, 'hardly anything ran: ticks come later then'];
		const c = this.counts(gap.from, gap.to), n = (v, text) => v > 0 ? [`${v.toLocaleString('en-US')} ${text}`] : [];
		const why = [...n(c.late, 'ticks came too late'), ...n(c.budget, 'were left out for the budget'), ...n(c.refused, 'were left out because of the longest pause')];
		if (c.throttled_us > 0) why.push(`the container was throttled for ${duration(c.throttled_us)}`);
		if (gap.count === 1 && gap.from <= side.from_us) out.push('before the first sample');
		else if (gap.count === 1 && gap.to >= side.to_us) out.push('after the last sample');
		out.push(why.length ? `${side.ticks.counts.length > 1 ? 'in the file of this time' : 'in the whole recording'}: ${why.join(', ')}` : 'the recording does not say why');
		return out;
	},

	// draw draws the lane below the strip.
	draw(g, y, width) {
		for (const idle of [true, false]) { // lost ticks over the others
			g.fillStyle = colours[idle ? '--sleep' : '--mark'];
			for (const gap of this.within(...strip.view())) {
				if (gap.idle !== idle) continue;
				const a = Math.max(0, strip.xAt(gap.from)), b = Math.min(width, strip.xAt(gap.to));
				g.fillRect(a, idle ? y + 1 : y, Math.max(1, b - a), idle ? 2 : 4);
			}
		}
	},

	legend() {
		const entry = (name, idle, text, title) => this.list.some((gap) => gap.idle === idle) && el('span', {id: name, class: 'key', title}, el('span', {class: 'swatch ' + name}), text);
		return [
			entry('gap', false, 'no samples', `the lane below the strip: no sample for ${head.sides.filter((s) => s.ticks).map((s) => duration(s.ticks.long_us)).join(' or ')} or longer`),
			entry('rare', true, 'few ticks', 'the lane below the strip: hardly anything ran, and ticks came later'),
		].filter((e) => e);
	},

	// longest returns the longest time without samples between two times, as text.
	longest(from, to) {
		let most = null, length = 0;
		for (const gap of this.within(from, to)) {
			const part = Math.min(gap.longest, gap.to - from, to - gap.from);
			if (part > length) [most, length] = [gap, part];
		}
		return most ? duration(length) + (most.idle ? ' (hardly anything ran)' : '') : '';
	},
};
