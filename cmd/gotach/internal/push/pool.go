package push

import (
	"crypto/x509"
	"errors"
)

// pool returns the authorities in a text of PEM.
func pool(pem []byte) (*x509.CertPool, error) {
	p := x509.NewCertPool()
	if !p.AppendCertsFromPEM(pem) {
		return nil, errors.New("no certificate in it")
	}
	return p, nil
}
