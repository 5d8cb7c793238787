module example.test/settings

go 1.19

require gopkg.in/yaml.v3 v3.0.0-20210107192922-496545a6307b
