// Checks a receipt without network access: go run ./examples/receipt receipt.json [KEY]…
package main

import (
	"fmt"
	"log"
	"os"

	tradethesis "trade-thesis.example/go"
)

func main() {
	if len(os.Args) < 2 {
		log.Fatal("name a file with a receipt, and the keys that you trust")
	}
	content, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	verified, err := tradethesis.VerifyReceipt(content, os.Args[2:], nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("valid in a log with", verified.TreeSize, "entries; signed by a key that you trust:", verified.IsTrusted)
	if verified.Evidence != nil && verified.Evidence.Text != nil {
		fmt.Println(verified.Evidence.RecordedAt, verified.Evidence.Profile.Handle, *verified.Evidence.Text)
	}
}
