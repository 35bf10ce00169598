package main

func produce() {
	for {
		select {
		case events <- next():
		case <-done:
		}
	}
}

func watch() {
	for {
		select {
		case e := <-events:
		case <-done:
		}
	}
}

func check() {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
			look()
		}
	}
}

func main() {
	ticker := time.NewTicker(time.Second)
	for {
		select {
		case <-ticker.C:
			look()
		}
	}
}
