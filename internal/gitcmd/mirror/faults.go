package mirror

// BenignFaults are the arguments, to be put before "fetch", that let git accept
// old mistakes in public histories which harm nobody.
func BenignFaults() []string { return benignFaults() }
