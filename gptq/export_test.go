package gptq

// NewOrdered is NewHessian for columns in file order.
func NewOrdered(moment []float64, k, group int, lambda float64) (*Hessian, error) {
	return newHessian(moment, k, group, lambda, 1, func(x *Hessian) {
		for i := range k {
			x.order = append(x.order, i)
		}
	})
}

// Order returns the column at every place.
func (x *Hessian) Order() []int { return x.order }
