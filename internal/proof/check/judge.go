package check

import (
	"regexp"
	"strings"
)

// What follows reads the words of a failure where the format itself does not
// say whether an assertion failed or something broke on the way there. It is
// a heuristic for telling strong from weak red; it never makes a case green.
var (
	assertedRE = regexp.MustCompile(`AssertionError|AssertionFailedError|ComparisonFailure|ERR_ASSERTION|` +
		`ExpectationFailedException|ExpectationNotMetError|MultipleFailuresError|Minitest::Assertion|` +
		`Failed asserting that|(?m:^(?:E\s+)?assert\s)|expect\([^)\n]*\)\.|(?i:assertion\b.*\bfailed)|` +
		`(?i:expectation failed)|(?m:^\s*--- FAIL: )|XCTAssert|Condition not satisfied|` +
		`(?i:\bexpected\b[^\n]{0,200}\b(got|but|actual|received|to be|to equal|to have|was)\b)|(?i:test::more)|` +
		`(?s:(?i:\bexpected:.{0,400}\b(actual|received|got):))|TestingLibraryElementError`)
	buildRE = regexp.MustCompile(`\[build failed\]|\[setup failed\]|SyntaxError|ERR_MODULE_NOT_FOUND|` +
		`(?i:cannot find (module|package))|ModuleNotFoundError|ImportError|does not provide an export|` +
		`(?m:^error(\[E\d+\])?: )|could not compile|COMPILATION ERROR|(?i:compilation (failed|error))|LoadError|` +
		`NoClassDefFoundError|ClassNotFoundException|error TS\d+|(?i:failed to (parse|resolve|load) (import|url|source|module))|` +
		`collecting \S+ *_+|error collecting`)
	interfaceRE = regexp.MustCompile(`is not a (function|constructor)|ReferenceError|is not defined|NameError|` +
		`AttributeError|has no attribute|NoMethodError|undefined (local variable or )?method|NoSuchMethodError|` +
		`NoSuchFieldError|Call to undefined|(got an )?unexpected keyword argument|takes \d+ positional|` +
		`fixture '[^']*' not found|missing \d+ required`)
	thrownRE = regexp.MustCompile(`\b[A-Z]\w*(Error|Exception)\b|panicked at|(?m:^panic: |^fatal error: )|Traceback \(most recent|` +
		`\bTypeError\b|SIGSEGV|SIGABRT|Segmentation fault`)
	timeoutRE = regexp.MustCompile(`panic: test timed out|testTimeoutFailure|(?i:timeout of \d+ ?m?s exceeded|exceeded timeout of|test timed out|TestTimedOut)`)
)

func looksAsserted(s string) bool { return assertedRE.MatchString(s) }

// judgeText says what a red case's words speak of. Words that name nothing
// known are taken as an assertion.
func judgeText(s string) (Status, Fault) {
	if len(s) > 256<<10 {
		s = s[:128<<10] + s[len(s)-128<<10:]
	}
	switch {
	case timeoutRE.MatchString(s):
		return Error, FaultTimeout
	case buildRE.MatchString(s) && !assertsFirst(s, buildRE):
		return Error, FaultBuild
	case looksAsserted(s) && !panics(s):
		return Fail, FaultNone
	case interfaceRE.MatchString(s), thrownRE.MatchString(s):
		file, ok := topFrame(s)
		switch {
		case ok && !IsTestPath(file):
			return Error, FaultCrash
		case interfaceRE.MatchString(s):
			return Error, FaultInterface
		}
		return Error, FaultTest
	}
	return Fail, FaultNone
}

// assertsFirst reports whether the text speaks of an assertion before it
// matches re: the other word is then part of a compared value.
func assertsFirst(s string, re *regexp.Regexp) bool {
	a, b := assertedRE.FindStringIndex(s), re.FindStringIndex(s)
	return a != nil && b != nil && a[0] < b[0]
}

// panics is true of a Go or Rust panic that is no assertion.
func panics(s string) bool {
	if strings.Contains(s, "panicked at") {
		return !regexp.MustCompile(`assertion\b.*\bfailed`).MatchString(s)
	}
	return goPanicRE.MatchString(s)
}

var (
	goPanicRE  = regexp.MustCompile(`(?m)^(panic: |fatal error: )`)
	goFrameRE  = regexp.MustCompile(`^\t(\S+\.go):\d+`)
	goRootRE   = regexp.MustCompile(`/(go|go-?[0-9.]+|golang[^/]*|toolchain@[^/]+)/src/`)
	goStdRE    = regexp.MustCompile(`^(created by )?(runtime|testing|reflect|panic|internal/\w+)[.(/]`) // paths may be trimmed
	jsFrameRE  = regexp.MustCompile(`(?:\(|at |^\s+)((?:file://)?/?[^\s():]+\.(?:[cm]?[jt]sx?|vue|svelte)):\d+`)
	pyFrameRE  = regexp.MustCompile(`File "([^"]+\.py)", line \d+|^([^\s:]+\.py):\d+: `)
	javaRE     = regexp.MustCompile(`^\s*at ([\w.$]+)\.[\w$<>]+\(([\w$]+\.(?:java|kt|scala|groovy)):\d+\)`)
	rubyRE     = regexp.MustCompile(`([^\s:]+\.rb):\d+:in `)
	phpRE      = regexp.MustCompile(`([^\s:(]+\.php)[:(]\d+`)
	rustRE     = regexp.MustCompile(`panicked at (?:'.*', )?([^\s:']+\.rs):\d+`)
	frameworks = regexp.MustCompile(`node_modules/(@?jest|@vitest|vitest|chai|expect|mocha|ava|tap|jasmine|@playwright|tinyspy|uvu|assert)\b|` +
		`site-packages/(_pytest|pluggy|pytest|unittest2|nose)\b|/unittest/|/lib/python[0-9.]+/(?:unittest|contextlib|importlib)|` +
		`vendor/phpunit/|gems/(rspec|minitest)|^(java|javax|jdk|sun|org\.junit|junit|org\.testng|org\.gradle|org\.apache\.maven)\.`)
)

// topFrame finds the file where something was thrown.
func topFrame(s string) (string, bool) {
	if goPanicRE.MatchString(s) {
		return goFrame(s)
	}
	if m := rustRE.FindStringSubmatch(s); m != nil {
		return m[1], true
	}
	var lastPython string
	for line := range strings.Lines(s) {
		line = strings.TrimRight(line, "\r\n")
		if len(line) > 2000 || frameworks.MatchString(line) {
			continue
		}
		if m := pyFrameRE.FindStringSubmatch(line); m != nil {
			lastPython = m[1] + m[2] // the last frame of a traceback is the innermost
			continue
		}
		if m := javaRE.FindStringSubmatch(line); m != nil && !frameworks.MatchString(m[1]) {
			return m[2], true
		}
		for _, re := range []*regexp.Regexp{jsFrameRE, rubyRE, phpRE} {
			if m := re.FindStringSubmatch(line); m != nil && !strings.Contains(line, "node:") {
				return m[1], true
			}
		}
	}
	return lastPython, lastPython != ""
}

// goFrame is the first frame below the runtime and the standard library of
// the goroutine that panicked.
func goFrame(s string) (string, bool) {
	at := goPanicRE.FindStringIndex(s)
	s = s[at[0]:]
	start := strings.Index(s, "\ngoroutine ")
	if start < 0 {
		return "", false
	}
	s = s[start+1:]
	if end := strings.Index(s, "\n\n"); end >= 0 {
		s = s[:end]
	}
	function := ""
	for line := range strings.Lines(s) {
		m := goFrameRE.FindStringSubmatch(line)
		if m == nil {
			function = line
			continue
		}
		if goRootRE.MatchString(m[1]) || goStdRE.MatchString(function) || strings.HasSuffix(m[1], "_testmain.go") {
			continue
		}
		return m[1], true
	}
	return "", false
}
