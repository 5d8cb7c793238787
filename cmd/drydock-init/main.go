// Command drydock-init is PID 1 of every sandbox.
package main

func main() {}
