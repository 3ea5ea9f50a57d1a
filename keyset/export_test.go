package keyset

// AtStep has hook called before each step of a Save.
func (f *File) AtStep(hook func(step string)) { f.step = hook }
