module harmed

go 1.25.0
