package broken

var text string = 1
