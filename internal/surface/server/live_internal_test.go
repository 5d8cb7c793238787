package server

import (
	"testing"
	"testing/synctest"
	"time"

	"drydock/internal/core"
	"drydock/internal/surface/api"
)

func TestWhoLooksIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l live
		ana := core.Author{Handle: "ana"}
		if news, err := l.here("ses_1", ana, api.Here{Client: "a"}); !news || err != nil {
			t.Fatal(news, err)
		}
		<-time.After(30 * time.Second)
		if news, err := l.here("ses_1", ana, api.Here{Client: "a"}); news || err != nil {
			t.Error(news, err)
		}
		<-time.After(30 * time.Second)
		if got := l.at("ses_1"); len(got) != 1 {
			t.Errorf("after 30 s: %+v", got)
		}
		<-time.After(16 * time.Second)
		if got := l.at("ses_1"); len(got) != 0 || len(l.places) != 0 {
			t.Errorf("after 46 s: %+v, %d places", got, len(l.places))
		}
	})
}

func TestTriesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tr tries
		for range triesOfOne {
			if err := tr.may("1.2.3.4"); err != nil {
				t.Fatal(err)
			}
			tr.failed("1.2.3.4")
		}
		if err := tr.may("1.2.3.4"); !core.Is(err, core.Exhausted) {
			t.Errorf("try %d: %v", triesOfOne+1, err)
		}
		if err := tr.may("5.6.7.8"); err != nil {
			t.Errorf("somebody else: %v", err)
		}
		<-time.After(tryWindow + time.Second)
		if err := tr.may("1.2.3.4"); err != nil {
			t.Errorf("later: %v", err)
		}
	})
}
