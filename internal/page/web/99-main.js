// The page begins here.

async function main() {
	try {
		await loadData();
	} catch (error) {
		byId('loading').textContent = 'The data of the page cannot be read: ' + error.message;
		return;
	}
	byId('loading').hidden = true;
	S = fromHash(location.hash);
	strip.prepare();
	goroutines.prepare();
	listeners.push(applyTheme, () => controls.draw(), () => strip.legend(), () => strip.draw(), () => strip.twin(), () => flame.draw(), () => goroutines.draw(), () => tables.draw());
	controls.start();
	strip.start();
	flame.start();
	goroutines.begin();
	addEventListener('hashchange', () => {
		S = fromHash(location.hash);
		draw();
	});
	addEventListener('resize', draw);
	matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
	// What the page shows, for tests and for the console.
	window.gotach = {settings: () => S, boxes: () => flame.boxes.map((b) => ({name: flame.name(b.box), x: b.x, y: b.y * flame.row, w: b.w, us: b.box.value})),
		rows: () => goroutines.rows.map((r, i) => ({name: r.goroutine < 0 ? groupName(r.group) : String(G.gId[r.goroutine]), y: i * goroutines.row, goroutine: r.goroutine}))};
	draw();
}

main();
