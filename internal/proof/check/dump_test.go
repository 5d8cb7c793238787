package check
import ("testing";"os")
func TestDump(t *testing.T){
 for _,f := range []struct{n,f string}{{"testdata/go-panic.jsonl","gotest"},{"testdata/node.tap","tap"},{"testdata/node.junit","junit"}} {
  h,_:=os.Open(f.n); r:=Read(f.f,h,Options{Check:"t",Root:"/workspace"})
  t.Log(f.n, r.Partial, r.Faults)
  for _,c := range r.Cases { t.Log(c.Status,c.Fault,c.ID.String(),"raw=",c.Raw,"grp",c.Group,c.Derived,c.File,c.Line,c.Tries) }
 }
}
