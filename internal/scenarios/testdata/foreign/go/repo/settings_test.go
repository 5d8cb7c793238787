package settings

import "testing"

func TestParse(t *testing.T) {
	got, err := Parse([]byte("port: 8080\nname: shop\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got["port"] != 8080 || got["name"] != "shop" {
		t.Errorf("got %v", got)
	}
}

func TestParseEmpty(t *testing.T) {
	if _, err := Parse(nil); err != ErrEmpty {
		t.Errorf("err = %v, want ErrEmpty", err)
	}
}
