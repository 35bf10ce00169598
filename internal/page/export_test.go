package page

import "encoding/json"

const MostPages = mostPages

var FindingNames = findingNames

// Findings returns a kind of findings of an input as a page has them.
func Findings(what string, in Input) ([]byte, error) {
	var t sideTables
	if err := t.find(what, in, nil); err != nil {
		return nil, err
	}
	return json.Marshal(t)
}

func (d *Data) Size() (int64, error) { return d.size() }
