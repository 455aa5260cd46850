
€ðb
`
android.heapprofdÊJ€ com.example.appsystem_server   2(è0ˆ'@€€€H¢libc.malloc°€ H
F

linux.perfú7zd X‚
ÿÿÿÿÿÿÿÿÿxšÿÿÿÿÿÿÿÿÿ"misses