"""The words of product names: Korean and English, as on the real marketplace."""

from typing import NamedTuple


class BrandWord(NamedTuple):
    code: int
    name: str
    name_kr: str


class CategoryWord(NamedTuple):
    """A medium category with the levels above it, and the small categories below it."""

    large_code: str
    large: str
    medium_code: str
    medium: str
    smalls: tuple[str, ...]


BRANDS = (
    BrandWord(133, "STONE ISLAND", "스톤 아일랜드"),
    BrandWord(7, "GUCCI", "구찌"),
    BrandWord(12, "PRADA", "프라다"),
    BrandWord(19, "BURBERRY", "버버리"),
    BrandWord(23, "SAINT LAURENT", "생로랑"),
    BrandWord(31, "BALENCIAGA", "발렌시아가"),
    BrandWord(44, "MAISON MARGIELA", "메종 마르지엘라"),
    BrandWord(52, "THOM BROWNE", "톰 브라운"),
    BrandWord(58, "BOTTEGA VENETA", "보테가 베네타"),
    BrandWord(61, "MONCLER", "몽클레르"),
    BrandWord(77, "AMI PARIS", "아미"),
    BrandWord(83, "MAISON KITSUNÉ", "메종 키츠네"),
    BrandWord(91, "ACNE STUDIOS", "아크네 스튜디오"),
    BrandWord(104, "CHLOÉ", "끌로에"),
    BrandWord(118, "GOLDEN GOOSE", "골든구스"),
    BrandWord(127, "DOLCE & GABBANA", "돌체 앤 가바나"),
    BrandWord(141, "C.P. COMPANY", "씨피 컴퍼니"),
    BrandWord(152, "RIMOWA", "리모와"),
)

HEADERS = (("W", "여성"), ("M", "남성"), ("K", "키즈"), ("L", "라이프"))

CATEGORIES = (
    CategoryWord("15", "의류", "15r02", "상의", ("맨투맨", "티셔츠", "니트", "셔츠")),
    CategoryWord("15", "의류", "15r03", "아우터", ("패딩", "코트", "재킷", "바람막이")),
    CategoryWord("15", "의류", "15r05", "하의", ("데님", "슬랙스", "조거 팬츠")),
    CategoryWord("16", "가방", "16r01", "숄더백", ("체인백", "호보백", "버킷백")),
    CategoryWord("16", "가방", "16r04", "백팩", ("나일론 백팩", "가죽 백팩")),
    CategoryWord("17", "신발", "17r02", "스니커즈", ("로우탑", "하이탑", "슬립온")),
    CategoryWord("17", "신발", "17r06", "구두", ("로퍼", "더비", "첼시 부츠")),
    CategoryWord("18", "패션잡화", "18r01", "지갑", ("반지갑", "카드지갑", "장지갑")),
    CategoryWord("18", "패션잡화", "18r03", "벨트", ("정장 벨트", "캐주얼 벨트")),
)

ADJECTIVES = (
    "와펜 패치",
    "로고 자수",
    "오버핏",
    "모노그램",
    "인타르시아",
    "워시드",
    "크롭",
    "시그니처",
    "4-바",
    "퀼팅",
)
SEASONS = ("23FW", "24SS", "24FW", "25SS", "25FW", "26SS", "[국내배송]", "[공식수입]")
COLORS = ("블랙", "화이트", "네이비", "베이지", "그레이 멜란지", "카키", "버건디", "Ivory", "BLACK/GOLD", "")
SIZES = ("XS", "S", "M", "L", "XL", "US 4", "US 6.5", "IT 48", "EU 41", "FREE", "ONE SIZE", "90(M)", "W32 L30")
SIZE_GUIDES = (
    "총장 68 / 가슴 56 / 소매 61 (cm)",
    "정사이즈 추천",
    '반 사이즈 크게 나왔습니다 ("하프업" 권장)',
    "US 4 = 국내 220mm",
)
TAGS = (
    "무료배송",
    "오늘출발",
    "해외직배송",
    "쿠폰할인",
    "정품보증",
    "단독특가",
    "신상",
    "품절임박",
    "리퍼브",
    "NEW ✨",
)
STATUSES = ("새상품", "새상품 (택 있음)", "중고 A급", "전시상품")
COUNTRIES = ("이탈리아", "프랑스", "대한민국", "포르투갈", "튀르키예", "중국 OEM", "Made in Italy")
LOCATIONS = ("서울 강남구", "경기 성남시 분당구", "부산 해운대구", "이탈리아 밀라노", "미국 뉴저지")

DELIVERY_DAYS = (
    ("평균 1일 이내 도착", "1일"),
    ("오늘 14시 이전 주문하면 평균 2일 안에 도착", "2일"),
    ("평균 3~5일 걸려요", "3~5일"),
    ("해외에서 출발, 보통 12일 뒤 도착", "해외 배송"),
    ("평균 7일", ""),
)
DELIVERY_WITHOUT_NUMBER = ("판매자가 날짜를 정합니다", "협의")

PARAGRAPHS = (
    "<p>본 상품은 <strong>100% 정품</strong>이며, 가품일 경우 200% 보상해 드립니다. 안심하고 구매하세요.</p>",
    '<p style="text-align:center"><img src="https://img.example.test/detail/{n}.jpg" alt="상세 이미지"></p>',
    "<ul><li>겉감: 면 100%</li><li>안감: 폴리에스터 65%, 면 35%</li><li>세탁: 드라이클리닝 권장</li></ul>",
    "<p>모니터 해상도에 따라 실제 색상과 차이가 있을 수 있으며, 이는 교환·반품 사유가 되지 않습니다.</p>",
    "<table><tr><th>사이즈</th><td>S</td><td>M</td></tr><tr><th>총장</th><td>66</td><td>68</td></tr></table>",
    "<p>Please check the size guide before ordering. Returns within 7 days &amp; with the tag attached.</p>",
    "<h3>배송 안내</h3><p>평일 오후 2시 이전 결제 시 당일 출고됩니다. 제주·도서산간은 배송비가 추가됩니다.</p>",
    '<p>구성품: 본품, 더스트백, 개런티 카드, "박스"는 브랜드 사정에 따라 없을 수 있습니다. 🎁 (No. {n})</p>',
    "<div class='notice'>해외 직배송 상품은 개인통관고유부호가 필요합니다.<br/>관부가세는 상품가에 포함됩니다.</div>",
    "<p>착용 모델: 키 182cm, 몸무게 70kg, M 사이즈 착용. 여유 있는 핏은 한 사이즈 크게 주문하세요.</p>",
)
"""Building blocks of a description; `{n}` is where a number goes."""
