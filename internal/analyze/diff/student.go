package diff

import "math"

// studentTail returns how likely a Student variable with so many degrees of freedom is at least t
// away from 0, on either side.
func studentTail(t, freedom float64) float64 {
	if math.IsInf(t, 0) {
		return 0
	}
	return incompleteBeta(freedom/2, 0.5, freedom/(freedom+t*t))
}

// studentQuantile returns the t of which studentTail is p.
func studentQuantile(p, freedom float64) float64 {
	low, high := 0.0, 1.0
	for studentTail(high, freedom) > p && high < 1e12 {
		low, high = high, high*2
	}
	for i := 0; i < 60 && high-low > 1e-10*high; i++ {
		if middle := (low + high) / 2; studentTail(middle, freedom) > p {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}

// incompleteBeta returns the regularized incomplete beta function, by its continued fraction
// (Abramowitz and Stegun 26.5.8, evaluated as Lentz does).
func incompleteBeta(a, b, x float64) float64 {
	if x <= 0 || x >= 1 {
		return min(1, max(0, x))
	}
	if x > (a+1)/(a+b+2) {
		return 1 - incompleteBeta(b, a, 1-x)
	}
	const tiny = 1e-300
	front := math.Exp(a*math.Log(x)+b*math.Log1p(-x)-logBeta(a, b)) / a
	f, c, d := 1.0, 1.0, 0.0
	for i := range 300 {
		m := float64(i / 2)
		var term float64
		switch {
		case i == 0:
			term = 1
		case i%2 == 0:
			term = m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m))
		default:
			term = -(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1))
		}
		if d = 1 + term*d; math.Abs(d) < tiny {
			d = tiny
		}
		d = 1 / d
		if c = 1 + term/c; math.Abs(c) < tiny {
			c = tiny
		}
		f *= c * d
		if math.Abs(1-c*d) < 1e-12 {
			break
		}
	}
	return front * (f - 1)
}

func logBeta(a, b float64) float64 {
	x, _ := math.Lgamma(a)
	y, _ := math.Lgamma(b)
	z, _ := math.Lgamma(a + b)
	return x + y - z
}
