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
