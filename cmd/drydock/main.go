// Command drydock is the daemon and its command line in one binary.
package main

func main() {}
