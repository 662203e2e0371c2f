from tests.support.worlds.generate import live
import sys,time,collections,traceback
a=int(sys.argv[1]); b=int(sys.argv[2]) if len(sys.argv)>2 else a+1
t=time.time(); c=collections.Counter(); ex={}; bad=0
for s in range(a,b):
    w,p=live(s)
    kinds={f.check for f in p.findings}
    bad+=bool(kinds)
    for k in kinds: c[k]+=1; ex.setdefault(k,[]).append((s,next(f for f in p.findings if f.check==k)))
print(b-a,"worlds",bad,"bad",time.time()-t)
for k,n in c.most_common():
    print(n,k)
    for s,f in ex[k][:3]: print("    ",s,f.step,f.text[:300])
